"""Words, options and exit codes of the command line; never TensorFlow.

May import: engine.commands, engine.process, report, codemod, capture, core.
"""
