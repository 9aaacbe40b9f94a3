"""More threads or processes, or fewer, for the same input work.

May import: optimizations.base, core.
"""
