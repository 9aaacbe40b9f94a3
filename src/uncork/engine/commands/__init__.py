"""The parent process, one file for each verb; TensorFlow-free, but for what ``run`` loads late.

May import: engine.process and below engine; ``run`` also engine.apply.
"""
