"""A part of a step by itself: forward and backward, over and over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from uncork.measure.interleave import Block
from uncork.measure.timing import timed


class Alone:
    """Runs as a graph that is traced when it is primed.

    Args:
        forward: Computes something; it is called once, to be traced.
        sources: What gradients are computed for.

    Example:
        >>> weight = tf.Variable(2.0)
        >>> alone = Alone(lambda: weight * weight, [weight])
        >>> alone.prime()
        0.0
        >>> alone.block(0.0).steps
        1
    """

    def __init__(self, forward: Callable[[], Any], sources: Sequence[Any]) -> None:
        def run() -> Any:
            with tf.GradientTape() as tape:
                tape.watch([s for s in sources if not isinstance(s, tf.Variable)])
                y = forward()
            return tape.gradient(y, list(sources))

        self._run = tf.function(run, autograph=False)

    def prime(self) -> float:
        """Trace it; the seconds of that are of no interest."""
        self._run()
        return 0.0

    def block(self, seconds: float) -> Block:
        """Run it for about so long."""
        return timed(self._runs(), seconds, 1.0)

    def _runs(self) -> Iterator[int]:
        while True:
            self._run()
            yield 1
