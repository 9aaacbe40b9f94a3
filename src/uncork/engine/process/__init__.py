"""Starts a worker, follows it, and clears up after it; TensorFlow-free.

May import: below engine.
"""
