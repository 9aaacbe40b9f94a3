"""Runs steps of ``fit``: settings, plans, recorded replays.

May import: training.transforms and below.
"""
