"""Traced graphs, and overrides during tracing.

May import: below training.
"""
