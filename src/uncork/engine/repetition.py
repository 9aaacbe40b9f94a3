"""How often does a training loop run, by the loops that it stands in? So often its data is read."""

from __future__ import annotations

import ast
import inspect
import linecache
import math
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Final

from uncork.core.stack import outwards, owner
from uncork.engine.loop_counts import times

# Iterate over their first argument, or are bars that do.
_HANDING_ON: Final = frozenset({"enumerate", "iter", "tqdm", "track", "progressbar", "Progbar"})

Loop = ast.For | ast.AsyncFor | ast.While


def passes(frame: FrameType | None, *, own: int = 1) -> int | None:
    """How often the training is begun; None where more than once, and nobody knows how often.

    The innermost training loop is not counted. Loops around it are multiplied, those over folds or
    settings with those over epochs.

    Args:
        frame: Of the training loop or below it.
        own: Loops that make up the training itself: 1 for a loop over batches, 0 for a ``fit``.
    """
    counts = list(_counts(frame, own))
    known = [count for count in counts if count is not None]
    return math.prod(known) if len(known) == len(counts) else None


def _counts(frame: FrameType | None, own: int) -> Iterator[int | None]:
    """Of each loop around the training."""
    innermost = True
    for each in outwards(frame):
        if owner(each) != "user":
            continue
        loops = loops_around(each.f_code.co_filename, each.f_lineno)
        for loop in loops[: len(loops) - own] if innermost else loops:
            yield None if isinstance(loop, ast.While) else times(loop, each)
        # A generator that hands batches on shares its loop with the one that asks for them.
        innermost = innermost and bool(each.f_code.co_flags & inspect.CO_GENERATOR)


def made_anew(frame: FrameType | None) -> bool:
    """Whether what a loop reads is another object in each pass, as far as its source tells.

    Made in the statement itself, in the loop around it, or in a function that has no such loop.

    Args:
        frame: Of the training loop or below it.
    """
    user = next((each for each in outwards(frame) if owner(each) == "user"), None)
    loops = [] if user is None else loops_around(user.f_code.co_filename, user.f_lineno)
    if user is None or not loops or isinstance(loops[-1], ast.While):
        return False
    data = _data(loops[-1].iter)
    if isinstance(data, ast.Call):
        return True
    if not isinstance(data, ast.Name):
        return False
    if len(loops) > 1:
        return data.id in _assigned(loops[-2])
    arguments = inspect.getargs(user.f_code)
    own = set(user.f_code.co_varnames) - {*arguments.args, arguments.varargs, arguments.varkw}
    return user.f_code.co_name != "<module>" and data.id in own


def _data(read: ast.expr) -> ast.expr:
    """Without what counts, shows or converts on the way."""
    while isinstance(read, ast.Call):
        name = getattr(read.func, "attr", getattr(read.func, "id", ""))
        if name == "as_numpy_iterator" and isinstance(read.func, ast.Attribute):
            read = read.func.value
        elif name in _HANDING_ON and read.args:
            read = read.args[0]
        else:
            break
    return read


def _assigned(loop: Loop) -> set[str]:
    """Names that a loop gives away anew in each round."""
    names = (node for node in ast.walk(loop) if isinstance(node, ast.Name))
    return {name.id for name in names if isinstance(name.ctx, ast.Store)}


def loops_around(filename: str, line: int) -> Sequence[Loop]:
    """The ``for`` and ``while`` statements of one function that enclose a line, outer ones first.

    None of them where the file is unreadable.

    Example:
        >>> loops_around("no such file", 3)
        []
    """
    source = "".join(linecache.getlines(filename))
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return []
    found: list[Loop] = []
    for node in ast.walk(tree):  # outer statements before the inner ones
        if not _covers(node, line):
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found = []  # loops around a definition do not repeat its calls
        if isinstance(node, Loop):
            found.append(node)
    return found


def _covers(node: ast.AST, line: int) -> bool:
    begin, end = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
    return begin is not None and end is not None and bool(begin <= line <= end)
