"""Does a training loop stand inside another loop, so that its data is read more than once?"""

from __future__ import annotations

import ast
import inspect
import linecache
from types import FrameType

from uncork.core.stack import owner


def repeated(frame: FrameType | None, *, own: int = 1) -> bool:
    """Some user's frame on the stack is inside a loop, the innermost training loop not counted.

    Args:
        frame: Of the training loop or below it.
        own: Loops that make up the training itself: 1 for a loop over batches, 0 for a ``fit``.
    """
    innermost = True
    while frame is not None:
        if owner(frame) == "user":
            loops = loops_around(frame.f_code.co_filename, frame.f_lineno)
            if loops > (own if innermost else 0):
                return True
            # A generator that hands batches on shares its loop with the one that asks for them.
            innermost = innermost and bool(frame.f_code.co_flags & inspect.CO_GENERATOR)
        frame = frame.f_back
    return False


def loops_around(filename: str, line: int) -> int:
    """How many ``for`` and ``while`` statements of one function enclose a line; 0 when unreadable.

    Example:
        >>> loops_around("no such file", 3)
        0
    """
    source = "".join(linecache.getlines(filename))
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return 0
    found = 0
    for node in ast.walk(tree):  # outer statements before the inner ones
        if not _covers(node, line):
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found = 0  # loops around a definition do not repeat its calls
        found += isinstance(node, ast.For | ast.While | ast.AsyncFor)
    return found


def _covers(node: ast.AST, line: int) -> bool:
    begin, end = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
    return begin is not None and end is not None and bool(begin <= line <= end)
