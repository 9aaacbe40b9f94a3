"""Checks that an edited training is still the same training.

May import: training and below.
"""
