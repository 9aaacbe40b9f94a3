"""Does a training loop stand inside another loop, so that its data is read more than once?"""

from __future__ import annotations

import ast
import inspect
import linecache
from types import FrameType

from uncork.capture.frames import owner


def repeated(frame: FrameType | None) -> bool:
    """Some user's frame on the stack is inside a loop, the innermost training loop not counted.

    Args:
        frame: Of the training loop or below it.
    """
    innermost = True
    while frame is not None:
        if owner(frame) == "user":
            loops = loops_around(frame.f_code.co_filename, frame.f_lineno)
            if loops > (1 if innermost else 0):
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
    return _count(tree, line)


def _count(node: ast.AST, line: int) -> int:
    found = 0
    for child in ast.iter_child_nodes(node):
        if not _covers(child, line):
            continue
        inner = _count(child, line)
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return inner  # loops around a definition do not repeat its calls
        found = max(found, inner + isinstance(child, ast.For | ast.While | ast.AsyncFor))
    return found


def _covers(node: ast.AST, line: int) -> bool:
    begin, end = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
    if begin is None or end is None:
        return True
    return bool(begin <= line <= end)
