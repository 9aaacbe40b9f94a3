"""Where time goes: kernels, lines, host syncs, start-up.

May import: measure.benchmark, measure.machine and below measure.
"""
