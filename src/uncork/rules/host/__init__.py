"""Python and the runtime limit the step.

May import: rules.base, core.
"""
