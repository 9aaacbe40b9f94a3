"""A trace of some steps, kept where TensorBoard and XProf look for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

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


def numbered(executions: Iterator[int]) -> Iterator[int]:
    """The same, each marked as a step with all that it takes, where somebody traces.

    Example:
        >>> list(numbered(iter([1, 1])))
        [1, 1]
    """
    if not trace.enabled:
        yield from executions
        return
    for number in count():
        with tf.profiler.experimental.Trace("train", step_num=number, _r=1):
            done = next(executions, None)
        if done is None:
            return
        yield done
