"""What each statement of a Python function costs, in time and in memory that it fills."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import CodeType, FrameType, FunctionType
from typing import Any

from uncork.pycode.syntax.parse import parse_source


@dataclass(frozen=True)
class StatementCost:
    """One statement of a function's body, with all that stands inside it.

    Attributes:
        line: Where it begins, from 1, in its file.
        share: Of the time of a call, 0 to 1, what it calls included.
        allocated_bytes: The most memory that was filled while it ran and not free before.
    """

    line: int
    share: float
    allocated_bytes: int


def profile_statements(
    function: FunctionType, call: Callable[[], object]
) -> tuple[StatementCost, ...]:
    """The statements of a function that ran in a call, in order of their lines.

    It is called twice: once for the time, once for the memory, and both times more slowly than when
    nobody watches.

    Args:
        function: Whose statements; only its own frames are watched, not what it calls.
        call: Calls it, at whatever depth.

    Returns:
        Nothing where the source cannot be read, or where a debugger or a coverage tool is watching.

    Example:
        >>> import numpy as np
        >>> def load():
        ...     table = np.ones((1000, 1000))
        ...     return table[:10]
        >>> [s.allocated_bytes >= 8_000_000 for s in profile_statements(load, load)]
        [True, False]
    """
    first = _first_lines(function)
    if not first or sys.gettrace() is not None or tracemalloc.is_tracing():
        return ()
    clock = _Seconds(first)
    begin = time.perf_counter()
    with _traced(function.__code__, clock):
        call()
    whole_s = time.perf_counter() - begin
    clock.leave()
    tracemalloc.start()
    try:
        memory = _Memory(first)
        with _traced(function.__code__, memory):
            call()
        memory.leave()
    finally:
        tracemalloc.stop()
    return tuple(
        StatementCost(line, clock.found[line] / whole_s, int(memory.found.get(line, 0)))
        for line in sorted(clock.found)
    )


class _Watch:
    """Told of each line of a function; sums up by statement.

    Args:
        first: Of each line, where its statement begins.
    """

    def __init__(self, first: Mapping[int, int]) -> None:
        self.found: dict[int, float] = {}
        self._first = first
        self._at: int | None = None

    def enter(self, line: int) -> None:
        """Another line begins."""
        self.leave()
        self._at = self._first.get(line)

    def leave(self) -> None:
        """The line that ran so far has ended."""
        if self._at is not None:
            self._add(self._at)
        self._at = None

    def _add(self, line: int) -> None:
        raise NotImplementedError


class _Seconds(_Watch):
    _since = 0.0

    def enter(self, line: int) -> None:
        super().enter(line)
        self._since = time.perf_counter()

    def _add(self, line: int) -> None:
        self.found[line] = self.found.get(line, 0.0) + time.perf_counter() - self._since


class _Memory(_Watch):
    _before = 0

    def enter(self, line: int) -> None:
        if self._at is not None and self._first.get(line) == self._at:
            return  # a round of a loop or comprehension in it: what earlier ones made is kept
        super().enter(line)
        self._before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()

    def _add(self, line: int) -> None:
        made = tracemalloc.get_traced_memory()[1] - self._before
        self.found[line] = max(self.found.get(line, 0.0), made)


@contextmanager
def _traced(code: CodeType, watch: _Watch) -> Iterator[None]:
    """Tell the watch of each line of this code that this thread runs."""

    def line(frame: FrameType, event: str, arg: Any) -> Any:
        del arg
        if event == "line":
            watch.enter(frame.f_lineno)
        elif event == "return":
            watch.leave()
        return line

    def entered(frame: FrameType, event: str, arg: Any) -> Any:
        del event, arg
        return line if frame.f_code is code else None

    sys.settrace(entered)
    try:
        yield
    finally:
        sys.settrace(None)


def _first_lines(function: FunctionType) -> dict[int, int]:
    """Of each line of a function, where the statement of its body begins that the line is in."""
    with suppress(OSError, TypeError, SyntaxError):
        lines, begin = inspect.getsourcelines(function)
        definition = parse_source(textwrap.dedent("".join(lines))).body[0]
        return {
            begin + line - 1: begin + statement.lineno - 1
            for statement in _body(definition)
            for line in range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
        }
    return {}


def _body(node: ast.AST) -> Iterator[ast.stmt]:
    """The statements inside; those inside a ``with`` or a ``try`` count themselves.

    Those inside a loop that yields do, too, behind the loop: its own are the lines that begin it.
    """
    for statement in getattr(node, "body", ()):
        if isinstance(statement, (ast.With, ast.Try)):
            yield from _body(statement)
        else:
            yield statement
        if isinstance(statement, (ast.For, ast.While)) and any(map(_is_yield, ast.walk(statement))):
            yield from _body(statement)


def _is_yield(node: ast.AST) -> bool:
    return isinstance(node, (ast.Yield, ast.YieldFrom))
