"""What is wrong: pure functions from evidence to findings; one file for each cause.

May import: core.
"""
