"""The tree of a user's source, read without a word.

From Python 3.12 on the parser itself warns of unknown escapes. Python says so once, with the file's
name, when it runs the script; each look of ours would say it again, of ``<unknown>``.
"""

from __future__ import annotations

import ast
import warnings


def parsed(source: str | bytes) -> ast.Module:
    """The tree of a source.

    Args:
        source: Bytes are decoded as Python decodes a file.

    Raises:
        SyntaxError: It is no Python.
        ValueError: It has null bytes.

    Example:
        >>> [type(each).__name__ for each in parsed("import re").body]
        ['Import']
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source)
