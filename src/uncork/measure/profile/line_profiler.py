"""What each line of a running loop takes, seen from inside the interpreter.

Python reports every line of the loop's own frame to a trace function, and every call that is made
meanwhile; deeper lines are not looked at. Calls become slower by that, kernels do not.
"""

from __future__ import annotations

import ast
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import numpy as np
import tensorflow as tf

from uncork.core.evidence.loop import LoopWork as Work
from uncork.pycode.frames.stack import code_location, code_owner
from uncork.pycode.syntax.parse import parse_source

_METRICS: Final = "/keras/src/metrics/"
_TRAINER: Final = "/keras/src/backend/tensorflow/trainer.py"
_EVALUATES: Final = frozenset({"evaluate", "predict", "test_on_batch", "predict_on_batch"})
_GRAPHS: Final = "/tensorflow/python/eager/polymorphic_function/"


class LineTimes:
    """Seconds by line and by what the line calls first; the lines of one frame only.

    Attributes:
        file: Of the frame.
        seconds_by_line: By line, and by what kind of work it was.
        functions_by_line: By line, seconds in functions of the user's.
        growing_names: Names that hold more bytes than when this began.

    Example:
        >>> times = LineTimes()
        >>> def loop():
        ...     times.start(sys._getframe())
        ...     total = sum(range(10))
        ...     times.stop()
        >>> loop()
        >>> [set(works) for works in times.seconds_by_line.values()]
        [{'plain'}]
    """

    def __init__(self) -> None:
        self.file = ""
        self.seconds_by_line: dict[int, Counter[Work]] = defaultdict(Counter)
        self.functions_by_line: dict[int, Counter[CodeType]] = defaultdict(Counter)
        self.growing_names: frozenset[str] = frozenset()
        self._kinds: dict[CodeType, Work | None] = {}
        self._frame: FrameType | None = None
        self._sizes: dict[str, int] = {}
        self._before: tuple[Any, Any] = (None, None)
        self._line: int | None = None
        self._work: Work = "plain"
        self._function: CodeType | None = None
        self._entered = 0.0

    def start(self, frame: FrameType) -> None:
        """From the next line of this frame on; to be called on its thread."""
        self._frame, self.file = frame, frame.f_code.co_filename
        self._sizes = dict(_sizes(frame))
        self._before = (sys.gettrace(), frame.f_trace)
        frame.f_trace = self._on_line
        sys.settrace(self._on_call)

    def stop(self) -> None:
        """The line that runs now is left out."""
        if self._frame is None:
            return
        traced, self._frame.f_trace = self._before
        sys.settrace(traced)
        sizes = dict(_sizes(self._frame))
        self.growing_names = frozenset(
            n for n, size in sizes.items() if size > self._sizes.get(n, size)
        )
        self._frame = None

    def _on_line(self, frame: FrameType, event: str, arg: Any) -> Any:
        del arg
        if event == "line":
            now = time.perf_counter()
            if self._line is not None:
                spent_s = now - self._entered
                self.seconds_by_line[self._line][self._work] += spent_s  # type: ignore[assignment]
                if self._function is not None:
                    self.functions_by_line[self._line][self._function] += spent_s  # type: ignore[assignment]
            self._line, self._work, self._function = frame.f_lineno, "plain", None
            self._entered = now
        return self._on_line

    def _on_call(self, frame: FrameType, event: str, arg: Any) -> None:
        del event, arg
        if self._work in ("plain", "function"):
            code = frame.f_code
            if code not in self._kinds:
                self._kinds[code] = _kind(frame)
            kind = self._kinds[code]
            if kind == "graph" or (kind is not None and self._work == "plain"):
                self._work = kind
                self._function = code if kind == "function" else self._function


def classify_statements(line_times: LineTimes) -> tuple[set[int], set[int]]:
    """Lines that drop what they compute, and lines that let a name grow.

    The latter give a name a value made of what it held before, and it holds more bytes than when
    the lines began to be timed.
    """
    dropping, growing = set[int](), set[int]()
    with suppress(Exception):  # a source that is gone
        for node in ast.walk(parse_source(Path(line_times.file).read_text())):
            if isinstance(node, ast.Expr):
                dropping.add(node.lineno)
            if isinstance(node, ast.Assign):
                names = {t.id for t in node.targets if isinstance(t, ast.Name)}
                used = {n.id for n in ast.walk(node.value) if isinstance(n, ast.Name)}
                if names & used & line_times.growing_names:
                    growing.add(node.lineno)
    return dropping, growing


def find_slowest_function(line_times: LineTimes, line: int) -> str | None:
    """Where the user's function begins that a line spends most in."""
    found = line_times.functions_by_line.get(line)
    return code_location(found.most_common(1)[0][0]) if found else None


def _kind(frame: FrameType) -> Work | None:
    code = frame.f_code
    file = code.co_filename
    if _METRICS in file:
        return "metrics"
    if file.endswith(_TRAINER) and code.co_name in _EVALUATES:
        return "evaluation"
    if _GRAPHS in file:
        return "graph"
    is_function = code_owner(frame) == "user" and not code.co_name.startswith("<")
    return "function" if is_function else None


def _sizes(frame: FrameType) -> Iterator[tuple[str, int]]:
    """Bytes of what the names of a frame hold, of arrays and tensors."""
    for name, value in list(frame.f_locals.items()):
        # Their type is asked, not they: what else a script holds may mind being looked at.
        if issubclass(type(value), np.ndarray):
            yield name, value.nbytes
        elif issubclass(type(value), tf.Tensor) and value.shape.is_fully_defined():
            yield name, value.shape.num_elements() * value.dtype.size
