"""What Python and the runtime do between kernels.

May import: optimizations.base, core.
"""
