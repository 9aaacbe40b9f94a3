"""What was seen: stages, loops, callbacks, kernels.

May import: core.base.
"""
