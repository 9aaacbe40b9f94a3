"""Predictions in closed form.

May import: core.documents, edits, evidence, base.
"""
