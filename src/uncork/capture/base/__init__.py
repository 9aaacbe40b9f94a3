"""The Listener protocol, patches, and how a script is stopped.

May import: pycode, core.
"""
