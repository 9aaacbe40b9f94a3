"""Copies for trials, filled caches, continued counters.

May import: pipeline.ir and below.
"""
