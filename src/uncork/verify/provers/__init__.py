"""Runs what has to be compared.

May import: verify.criteria, training and below.
"""
