"""The subject for ``Model.fit``.

May import: engine.subject, engine.process and below engine.
"""
