"""tf.data's dataset classes and private ops.

May import: compat.tf, core.
"""
