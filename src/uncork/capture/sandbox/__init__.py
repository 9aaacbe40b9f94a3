"""Suppresses saves during trials, and restores files.

May import: capture.base, pycode, core.
"""
