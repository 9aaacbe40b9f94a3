"""A plan, or Keras 3, written into a user's script (LibCST).

May import: pycode.syntax, core.
"""
