"""The edits of a plan, written into a script.

May import: codemod.syntax, pycode.syntax, core.
"""
