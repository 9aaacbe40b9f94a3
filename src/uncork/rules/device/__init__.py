"""Kernels limit the step.

May import: rules.base, core.
"""
