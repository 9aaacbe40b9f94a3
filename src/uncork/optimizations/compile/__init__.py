"""XLA and other compilers.

May import: optimizations.base, core.
"""
