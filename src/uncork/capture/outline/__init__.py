"""Moves a loop's training step into a function before the script runs.

May import: capture.base, pycode, core.
"""
