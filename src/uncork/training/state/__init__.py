"""Snapshots of weights, optimizer slots and random state.

May import: below training.
"""
