"""Micro-batches and rematerialization.

May import: training.state, training.tracing and below training.
"""
