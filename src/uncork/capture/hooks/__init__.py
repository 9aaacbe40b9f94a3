"""Import hooks on TensorFlow and Keras.

May import: capture.base, measure and below.
"""
