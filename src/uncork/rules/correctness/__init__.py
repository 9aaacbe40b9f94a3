"""The training is wrong, fast or not.

May import: rules.base, core.
"""
