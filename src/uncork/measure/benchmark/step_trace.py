"""A trace of some steps, kept where TensorBoard and XProf look for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.profiler import trace


def trace_into(folder: str, steps: Callable[[], object]) -> None:
    """Let some steps run under TensorFlow's profiler, and keep what it saw.

    Args:
        folder: What ``tensorboard --logdir`` is to be given; each trace has its own place in it.
        steps: Runs at least one.

    Raises:
        tensorflow.errors.OpError: Somebody profiles already, or the folder cannot be written.
    """
    tf.profiler.experimental.start(folder)
    try:
        steps()
    finally:
        tf.profiler.experimental.stop()


class StepMarks:
    """Marks in a trace, each from one step to the next, for tools that look for steps.

    Nothing is marked where nobody traces. A mark begins and ends on one thread.

    Example:
        >>> marks = StepMarks()
        >>> marks.next()
        >>> marks.end()
    """

    def __init__(self) -> None:
        self._mark: Any = None
        self._number = 0

    def next(self) -> None:
        """A step begins; the one before ends, if there is one."""
        self.end()
        if trace.enabled:
            self._mark = tf.profiler.experimental.Trace("train", step_num=self._number, _r=1)
            self._mark.__enter__()
            self._number += 1

    def end(self) -> None:
        """The last one, too, has its end."""
        if self._mark is not None:
            self._mark.__exit__(None, None, None)
            self._mark = None


def numbered(executions: Iterator[int]) -> Iterator[int]:
    """The same, each marked as a step with all that it takes.

    Example:
        >>> list(numbered(iter([1, 1])))
        [1, 1]
    """
    marks = StepMarks()
    try:
        while True:
            marks.next()
            done = next(executions, None)
            if done is None:
                return
            yield done
    finally:
        marks.end()
