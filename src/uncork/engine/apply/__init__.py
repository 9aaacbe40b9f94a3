"""A plan that is active in the script's own process.

May import: engine.fit, engine.loop, engine.diagnose, engine.subject and below engine.
"""
