"""The user's Python code: read, located, observed.

May import: compat, core.
"""
