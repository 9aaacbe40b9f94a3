"""One Keras training, or one step of a user's own loop: its state, input, step and callbacks.

May import: pipeline and below.
"""
