"""A trace of some steps, kept where TensorBoard and XProf look for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from uncork.compat.tf.profiler import trace


def write_trace(folder: str, run_steps: Callable[[], object]) -> None:
    """Let some steps run under TensorFlow's profiler, and keep what it saw.

    Args:
        folder: What ``tensorboard --logdir`` is to be given; each trace has its own place in it.
        run_steps: Runs at least one.

    Raises:
        tensorflow.errors.OpError: Somebody profiles already, or the folder cannot be written.
    """
    tf.profiler.experimental.start(folder)
    try:
        run_steps()
    finally:
        tf.profiler.experimental.stop()


class StepMarks:
    """Marks in a trace, each from one step to the next, for tools that look for steps.

    Nothing is marked where nobody traces. A mark begins and ends on one thread.

    Example:
        >>> marks = StepMarks()
        >>> marks.start_step()
        >>> marks.end_step()
    """

    def __init__(self) -> None:
        self._mark: Any = None
        self._number = 0

    def start_step(self) -> None:
        """A step begins; the one before ends, if there is one."""
        self.end_step()
        if trace.enabled:
            self._mark = tf.profiler.experimental.Trace("train", step_num=self._number, _r=1)
            self._mark.__enter__()
            self._number += 1

    def end_step(self) -> None:
        """The last one, too, has its end."""
        if self._mark is not None:
            self._mark.__exit__(None, None, None)
            self._mark = None


def mark_steps(executions: Iterator[int]) -> Iterator[int]:
    """The same, each marked as a step with all that it takes.

    Example:
        >>> list(mark_steps(iter([1, 1])))
        [1, 1]
    """
    marks = StepMarks()
    try:
        while True:
            marks.start_step()
            done = next(executions, None)
            if done is None:
                return
            yield done
    finally:
        marks.end_step()
