"""Questions to the syntax tree; TensorFlow-free.

May import: core.
"""
