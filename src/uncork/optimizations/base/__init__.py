"""The interface of an optimization, shared preconditions, and outcomes.

May import: core.
"""
