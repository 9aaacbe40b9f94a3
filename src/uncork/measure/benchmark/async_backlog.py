"""How far Python may run ahead of ops that execute asynchronously, while a block of steps is timed.

A loop that reads nothing starts a thousand steps in the time of one. A block that ends by the clock
of Python alone would then last until all of them are computed.
"""

from __future__ import annotations

import math

from tensorflow.python.eager import context


def runs_behind() -> bool:
    """Ops that this thread starts are computed behind Python.

    What a step computes and what Python does then overlap, and neither is seen in the other's time.

    Example:
        >>> runs_behind()
        False
    """
    return bool(context.context().is_async())


class Backlog:
    """Tells, step by step, whether the next may be started before those so far are computed.

    Where ops run at once there is never one, and the clock may be asked after each step.

    Example:
        >>> Backlog().grows(1)
        False
    """

    def __init__(self) -> None:
        self._asynchronous: bool | None = None  # of the thread that starts the steps
        self._until = 0

    def grows(self, steps: int) -> bool:
        """Another may be started at once; otherwise all have been computed when this returns.

        Args:
            steps: Started so far.
        """
        if self._asynchronous is None:
            self._asynchronous = runs_behind()
        if not self._asynchronous:
            return False
        if steps < self._until:
            return True
        context.async_wait()
        return False

    def allow(self, steps: int, timed: int, passed_s: float, left_s: float) -> None:
        """Let as many be started as are computed in the time that is left, and no more than timed.

        Args:
            steps: Started so far, and computed.
            timed: How many of them took ``passed_s``.
            passed_s: Seconds.
            left_s: Seconds; infinite where another end is set to it.
        """
        fit = left_s * timed / passed_s if timed > 0 and passed_s > 0 else math.inf
        self._until = steps + max(1, int(min(fit, timed)))
