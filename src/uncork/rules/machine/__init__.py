"""Environment and start-up.

May import: rules.base, core.
"""
