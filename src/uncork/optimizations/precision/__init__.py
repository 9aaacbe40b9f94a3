"""Fewer bits, or more.

May import: optimizations.base, core.
"""
