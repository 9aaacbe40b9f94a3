"""Thresholds and bounds that rules share.

May import: core.
"""
