"""What to change, as data.

May import: core.evidence, core.base.
"""
