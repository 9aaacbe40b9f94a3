"""Rewrites of a pipeline: one file for each edit, or helper of one.

May import: pipeline.analysis, equivalence, runtime and below.
"""
