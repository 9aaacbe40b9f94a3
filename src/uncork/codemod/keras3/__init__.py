"""Migration of a script from Keras 2.

May import: codemod.syntax, pycode.syntax, core.
"""
