"""Shows a saved diagnosis or plan.

May import: core.
"""
