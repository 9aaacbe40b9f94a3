"""Runs an unmodified script and reaches its training calls.

May import: measure, pycode, core.
"""
