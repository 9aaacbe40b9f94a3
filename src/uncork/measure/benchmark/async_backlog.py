"""How far Python may run ahead of ops that execute asynchronously, while a block of steps is timed.

A loop that reads nothing starts a thousand steps in the time of one. A block that ends by the clock
of Python alone would then last until all of them are computed.
"""

from __future__ import annotations

import math

from uncork.compat.tf.eager_context import async_wait, is_async


def is_execution_async() -> bool:
    """Ops that this thread starts are computed behind Python.

    What a step computes and what Python does then overlap, and neither is seen in the other's time.

    Example:
        >>> is_execution_async()
        False
    """
    return is_async()


class AsyncBacklog:
    """Tells, step by step, whether the next may be started before those so far are computed.

    Where ops run at once there is never one, and the clock may be asked after each step.

    Example:
        >>> AsyncBacklog().can_start_next(1)
        False
    """

    def __init__(self) -> None:
        self._asynchronous: bool | None = None  # of the thread that starts the steps
        self._until = 0

    def can_start_next(self, started_steps: int) -> bool:
        """Another may be started at once; otherwise all have been computed when this returns.

        Args:
            started_steps: Started so far.
        """
        if self._asynchronous is None:
            self._asynchronous = is_execution_async()
        if not self._asynchronous:
            return False
        if started_steps < self._until:
            return True
        async_wait()
        return False

    def set_limit(
        self, started_steps: int, timed_steps: int, elapsed_s: float, remaining_s: float
    ) -> None:
        """Let as many be started as are computed in the time that is left, and no more than timed.

        Args:
            started_steps: Started so far, and computed.
            timed_steps: How many of them took ``elapsed_s``.
            elapsed_s: Seconds.
            remaining_s: Seconds; infinite where another end is set to it.
        """
        fit = (
            remaining_s * timed_steps / elapsed_s if timed_steps > 0 and elapsed_s > 0 else math.inf
        )
        self._until = started_steps + max(1, int(min(fit, timed_steps)))
