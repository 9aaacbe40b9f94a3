"""Graphs of map functions, cut and traced again.

May import: below pipeline.
"""
