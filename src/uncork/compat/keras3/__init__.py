"""Private names of Keras 3.

May import: compat.borrow, compat.hook_targets, core.
"""
