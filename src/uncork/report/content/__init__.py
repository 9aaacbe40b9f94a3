"""Numbers and sentences of a report, without any drawing.

May import: core.
"""
