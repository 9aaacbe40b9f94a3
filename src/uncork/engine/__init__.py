"""The work itself: the parent process, the worker process, and what both share.

May import: everything below; not cli, not api.
"""
