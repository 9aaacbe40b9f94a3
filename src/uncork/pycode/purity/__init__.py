"""Side effects, random numbers, guards, memoization.

May import: pycode.frames, compat, core.
"""
