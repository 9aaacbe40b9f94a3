"""Clocks, profilers, and the machine.

May import: pycode and below.
"""
