"""The comprehensions that a frame runs in, told by the place of its instruction, not by its line.

From Python 3.12 on a comprehension has no frame of its own. Whether a call is made by it or beside
it, as an argument of the same call may be, only columns tell.

Has the script left the loop that its training is? From there on it makes use of the weights.

How often does a training loop run, by the loops that it stands in? So often its data is read.
"""

from __future__ import annotations

import ast
import dis
import inspect
import linecache
import math
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from types import CodeType, FrameType
from typing import Any, Final

from uncork.pycode.frames.stack import code_owner, is_outlined_step, iterate_frames
from uncork.pycode.syntax.parse import parse_source
from uncork.pycode.syntax.trip_count import count_iterations

Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
# Ask what a comprehension goes through for what comes next.
_ASKING: Final = frozenset({"GET_ITER", "FOR_ITER", "GET_AITER", "GET_ANEXT"})
_Span = tuple[tuple[int, int], tuple[int, int]]


def running_comprehensions(frame: FrameType, tree: ast.AST, kind: Any) -> list[Comprehension]:
    """The comprehensions of a kind that a frame runs a part of, outer ones first.

    Args:
        frame: Of the function around them, or of a comprehension's own.
        tree: Of its whole file.
        kind: A class of :mod:`ast`, or several.

    Example:
        >>> import sys
        >>> source = "[len(look()) for _ in [[0 for y in 'ab']]]"
        >>> def look():
        ...     return running_comprehensions(sys._getframe(1), ast.parse(source), ast.ListComp)
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


# Iterate over their first argument, or are bars that do.
_HANDING_ON: Final = frozenset(
    {"enumerate", "iter", "islice", "tqdm", "track", "progressbar", "Progbar"}
)

Loop = ast.For | ast.AsyncFor | ast.While
_Inlined = ast.ListComp | ast.SetComp | ast.DictComp
# Frames of their own; from Python 3.12 on only that of a generator.
_COMPREHENSIONS: Final = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})
_INLINED: Final = sys.version_info >= (3, 12)


def count_passes(frame: FrameType | None, *, own_loop_count: int = 1) -> int | None:
    """How often the training is begun; None where more than once, and nobody knows how often.

    The innermost training loop is not counted. Loops around it are multiplied, those over folds or
    settings with those over epochs.

    Args:
        frame: Of the training loop or below it.
        own_loop_count: Loops that make up the training itself: 1 for a loop over batches, 0 for a
            ``fit``.
    """
    counts = list(_counts(frame, own_loop_count))
    known = [count for count in counts if count is not None]
    return math.prod(known) if len(known) == len(counts) else None


def _counts(frame: FrameType | None, own: int) -> Iterator[int | None]:
    """Of each loop around the training."""
    innermost, below = True, None
    for each in iterate_frames(frame):
        if code_owner(each) != "user":
            continue
        loops = loops_of_frame(each)
        if not loops and is_outlined_step(each.f_code):
            continue  # its caller stands in its place
        if below is not None:
            # A generator that hands batches on shares its loop with the one that asks for them.
            innermost = innermost and _hands_on(below, loops)
        for loop in loops[: len(loops) - own] if innermost else loops:
            yield None if isinstance(loop, ast.While) else count_iterations(loop, each)
        below = each


def _hands_on(frame: FrameType, loops: Sequence[Loop]) -> bool:
    """Whether a frame gives what it reads to the innermost of the loops around its caller."""
    if frame.f_code.co_name != "<genexpr>":
        return bool(frame.f_code.co_flags & inspect.CO_GENERATOR)
    read = loops[-1].iter if loops and not isinstance(loops[-1], ast.While) else None
    return read is not None and _covers(read, frame.f_lineno)


def is_recreated_each_pass(frame: FrameType | None) -> bool:
    """Whether what a loop reads is another object in each pass, as far as its source tells.

    Made in the statement itself, in the loop around it, or in a function that has no such loop.

    Args:
        frame: Of the training loop or below it.
    """
    users = (each for each in iterate_frames(frame) if code_owner(each) == "user")
    user = next(
        (each for each in users if function_loops(each) or not is_outlined_step(each.f_code)), None
    )
    loops = [] if user is None else _around(user)
    if user is None or not loops or isinstance(loops[-1], ast.While):
        return False
    data = _data(loops[-1].iter)
    if isinstance(data, ast.Call):
        return getattr(data.func, "id", "") != "range"  # its data is asked for by ``next``
    if not isinstance(data, ast.Name):
        return False
    if len(loops) > 1:
        return data.id in _assigned(loops[-2])
    while user.f_code.co_name in _COMPREHENSIONS and user.f_back is not None:
        user = user.f_back
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


def _around(frame: FrameType) -> list[Loop]:
    """Loops of a function, those included that a comprehension of it stands in."""
    loops = loops_of_frame(frame)
    if frame.f_code.co_name not in _COMPREHENSIONS or frame.f_back is None:
        return loops
    outer = loops_around(frame.f_code.co_filename, frame.f_code.co_firstlineno)
    return [*outer, *loops]


def loops_of_frame(frame: FrameType) -> list[Loop]:
    """The loops of its own that a frame is in; those of a comprehension are written otherwise."""
    code = frame.f_code
    if code.co_name in _COMPREHENSIONS:
        kind = ast.GeneratorExp if code.co_name == "<genexpr>" else _Inlined
        return [loop for own in _comprehended(frame, kind)[-1:] for loop in own]
    loops = function_loops(frame)
    inlined = _comprehended(frame, _Inlined) if _INLINED else []
    return [*loops, *(loop for own in inlined for loop in own)]


def _comprehended(frame: FrameType, kind: Any) -> list[list[Loop]]:
    """The comprehensions of a kind that a frame is in, each as the loops that it stands for."""
    return [
        [
            ast.copy_location(
                ast.For(target=each.target, iter=each.iter, body=[ast.Pass()], orelse=[]), node
            )
            for each in node.generators
        ]
        for node in running_comprehensions(frame, _tree(frame.f_code.co_filename), kind)
    ]


def function_loops(frame: FrameType) -> list[Loop]:
    """The ``for`` and ``while`` statements of its function that a frame is in, outer ones first.

    Of one that is the body of a loop, moved out of it, those that were moved with it.
    """
    code = frame.f_code
    loops = loops_around(code.co_filename, frame.f_lineno)
    return [
        each for each in loops if not is_outlined_step(code) or each.lineno >= code.co_firstlineno
    ]


def loops_around(filename: str, line: int) -> Sequence[Loop]:
    """The ``for`` and ``while`` statements of one function that enclose a line, outer ones first.

    None of them where the file is unreadable.

    Example:
        >>> loops_around("no such file", 3)
        []
    """
    found: list[Loop] = []
    for node in ast.walk(_tree(filename)):  # outer statements before the inner ones
        if not _covers(node, line):
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found = []  # loops around a definition do not repeat its calls
        if isinstance(node, Loop):
            found.append(node)
    return found


def _tree(filename: str) -> ast.AST:
    """Of a file; an empty one where it is unreadable."""
    with suppress(SyntaxError):
        return parse_source("".join(linecache.getlines(filename)))
    return ast.Module(body=[], type_ignores=[])


def _covers(node: ast.AST, line: int) -> bool:
    begin, end = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
    return begin is not None and end is not None and bool(begin <= line <= end)


class LoopExitDetector:
    """The lines of the loops that a training stands in, in all functions on the stack.

    Args:
        frame: Of the training step or below it.
    """

    def __init__(self, frame: FrameType | None) -> None:
        self._thread = threading.get_ident()
        self._lines: dict[CodeType, range] = {}
        for each in iterate_frames(frame):
            loops = loops_of_frame(each) if code_owner(each) == "user" else []
            if loops:
                end = loops[0].end_lineno or loops[0].lineno
                self._lines[each.f_code] = range(loops[0].lineno, end + 1)

    @property
    def is_entered_once(self) -> bool:
        """Once left they are not entered again: no function is called to run them."""
        return bool(self._lines) and all(code.co_name == "<module>" for code in self._lines)

    def has_exited(self, frame: FrameType | None) -> bool:
        """Whether the script is in none of them; False on another thread, where nobody knows.

        Args:
            frame: Where it is now.
        """
        if not self._lines or threading.get_ident() != self._thread:
            return False
        return not any(
            each.f_lineno in self._lines.get(each.f_code, ()) for each in iterate_frames(frame)
        )
