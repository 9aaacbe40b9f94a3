"""Private names of TensorFlow's runtime.

May import: compat.borrow, core.
"""
