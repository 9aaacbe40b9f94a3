"""The size of a batch, and what fits into memory.

May import: optimizations.base, core.
"""
