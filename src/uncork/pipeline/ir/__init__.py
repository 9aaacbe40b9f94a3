"""The tree of dataset objects, read and built.

May import: pipeline.functions and below pipeline.
"""
