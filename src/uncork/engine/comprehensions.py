"""The comprehensions that a frame runs in, told by the place of its instruction, not by its line.

From Python 3.12 on a comprehension has no frame of its own. Whether a call is made by it or beside
it, as an argument of the same call may be, only columns tell.
"""

from __future__ import annotations

import ast
import dis
from collections.abc import Iterator
from itertools import islice
from types import FrameType
from typing import Any, Final

Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
# Ask what a comprehension goes through for what comes next.
_ASKING: Final = frozenset({"GET_ITER", "FOR_ITER", "GET_AITER", "GET_ANEXT"})
_Span = tuple[tuple[int, int], tuple[int, int]]


def running_in(frame: FrameType, tree: ast.AST, kind: Any) -> list[Comprehension]:
    """The comprehensions of a kind that a frame runs a part of, outer ones first.

    Args:
        frame: Of the function around them, or of a comprehension's own.
        tree: Of its whole file.
        kind: A class of :mod:`ast`, or several.

    Example:
        >>> import sys
        >>> source = "[len(look()) for _ in [[0 for y in 'ab']]]"
        >>> def look():
        ...     return running_in(sys._getframe(1), ast.parse(source), ast.ListComp)
        >>> eval(compile(source, "train.py", "eval"))
        [1]
    """
    found = [node for node in ast.walk(tree) if isinstance(node, kind)]
    at = _span(frame)
    if at is None:  # before Python 3.11, or where it was told to keep no columns
        line = frame.f_lineno
        return [n for n in found if n.lineno <= line <= (n.end_lineno or n.lineno)][-1:]
    running = [node for node in found if any(_holds(part, at) for part in _parts(node))]
    if dis.opname[frame.f_code.co_code[frame.f_lasti]] in _ASKING:
        # Written outside of it, or all over it, by the version of Python.
        places = ((node, (_extent(node.generators[0].iter), _extent(node))) for node in found)
        running += [node for node, extents in places if at in extents][-1:]
    return running


def _parts(node: Comprehension) -> Iterator[ast.expr]:
    """What runs again and again."""
    yield from (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)
    first, *others = node.generators
    yield from (first.target, *first.ifs)
    for each in others:
        yield from (each.target, each.iter, *each.ifs)


def _span(frame: FrameType) -> _Span | None:
    """Where the expression begins and ends that a frame's instruction is of."""
    positions = getattr(frame.f_code, "co_positions", None)
    if positions is None or frame.f_lasti < 0:
        return None
    line, end_line, column, end_column = next(islice(positions(), frame.f_lasti // 2, None))
    if None in (line, end_line, column, end_column):
        return None
    return (line, column), (end_line, end_column)


def _extent(node: ast.expr) -> _Span:
    end = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
    return (node.lineno, node.col_offset), end


def _holds(part: ast.expr, at: _Span) -> bool:
    begin, end = _extent(part)
    return begin <= at[0] and at[1] <= end
