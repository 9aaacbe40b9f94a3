"""Frozen records and pure functions; no TensorFlow, no NumPy.

May import: nothing else of Uncork.
"""
