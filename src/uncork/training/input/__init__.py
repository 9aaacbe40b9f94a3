"""What ``fit`` reads: datasets, arrays, PyDatasets, generators.

May import: training.state, training.tracing and below training.
"""
