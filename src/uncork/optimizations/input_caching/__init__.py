"""Create data once, read it often.

May import: optimizations.base, core.
"""
