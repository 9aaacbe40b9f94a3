"""Whose code is running, and at which source line.

May import: pycode.syntax, compat, core.
"""
