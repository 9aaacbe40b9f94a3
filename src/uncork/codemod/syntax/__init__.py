"""The concrete syntax tree of a script, and how it is changed.

May import: pycode.syntax, core.
"""
