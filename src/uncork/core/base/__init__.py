"""Record, errors, journal, machine, measurement.

May import: nothing else of Uncork.
"""
