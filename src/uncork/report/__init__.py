"""Views of a saved diagnosis or plan: numbers first (``info``), drawing second.

Only records go in, so any file can be drawn again on a machine without TensorFlow. This module
imports nothing: ``rich`` and ``jinja2`` are paid for by the view that needs them.
"""
