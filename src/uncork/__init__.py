"""Uncork: an automatic performance engineer for TensorFlow/Keras training.

It measures where an unmodified training script spends its time, takes the brakes off one by one,
proves for each step what it did to the training, and hands back a plan.
"""

__version__ = "0.1.0"
