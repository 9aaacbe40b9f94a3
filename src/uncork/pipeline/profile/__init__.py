"""What each stage of a pipeline costs.

May import: pipeline.transforms and below.
"""
