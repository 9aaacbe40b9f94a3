"""Less input work for the same elements.

May import: optimizations.base, core.
"""
