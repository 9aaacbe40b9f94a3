"""Compares two runs: one file for each guarantee; "not passed" by default.

May import: training and below.
"""
