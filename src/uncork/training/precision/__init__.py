"""Dtype policies and loss scaling.

May import: training.state, training.tracing and below training.
"""
