"""Optimizer updates and learning rates.

May import: training.state, training.tracing and below training.
"""
