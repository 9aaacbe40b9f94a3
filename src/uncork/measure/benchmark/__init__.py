"""Timed blocks, and interleaved comparison.

May import: measure.machine and below measure.
"""
