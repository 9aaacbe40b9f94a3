"""Subjects for the user's own training loops.

May import: engine.subject, engine.process and below engine.
"""
