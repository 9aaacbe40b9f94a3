"""The only door to private names of TensorFlow and Keras.

May import: core.
"""
