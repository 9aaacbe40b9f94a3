"""Costs of callbacks; checkpoints written asynchronously.

May import: training.state, training.tracing and below training.
"""
