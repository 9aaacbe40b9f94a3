"""Tries optimizations in order on one training; makes a training fit into memory.

May import: engine.fit, engine.loop, engine.diagnose, engine.subject and below engine.
"""
