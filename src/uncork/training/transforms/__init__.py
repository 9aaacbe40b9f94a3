"""Changes of Keras's training step.

May import: training.input, memory, optimizer, precision, state, tracing and below.
"""
