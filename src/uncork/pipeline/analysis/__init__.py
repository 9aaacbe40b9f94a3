"""What may be rewritten, and what is wrong already.

May import: pipeline.ir and below.
"""
