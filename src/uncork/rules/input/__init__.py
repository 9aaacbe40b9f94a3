"""The input pipeline or the loader limits the step.

May import: rules.base, core.
"""
