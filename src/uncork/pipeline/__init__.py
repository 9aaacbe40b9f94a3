"""The tf.data engine, laid out like a compiler.

May import: measure and below.
"""
