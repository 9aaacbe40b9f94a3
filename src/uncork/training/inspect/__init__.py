"""Measured facts about a model and its batches.

May import: training.run, training.loop_step and below.
"""
