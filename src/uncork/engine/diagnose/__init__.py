"""Measures one training and collects the evidence that rules judge.

May import: engine.subject, engine.process and below engine.
"""
