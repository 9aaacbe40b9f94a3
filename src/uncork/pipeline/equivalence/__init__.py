"""Copies with fixed seeds, digests, closeness.

May import: pipeline.ir and below.
"""
