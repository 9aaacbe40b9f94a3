"""The step of the user's own loop, intercepted.

May import: training.transforms and below.
"""
