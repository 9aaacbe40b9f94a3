"""A part of a step by itself: forward and backward, over and over.

The model that a loop of the user's own trains, as it is and in float32.

The loop's step was compiled by its author, and cannot be built anew from outside. The model by
itself can: forward and backward, on ones of the shape that the step gave it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf

from uncork.core.base.measurement import Comparison
from uncork.measure.benchmark.interleave import Block, compare_few_pairs
from uncork.measure.benchmark.timed_block import time_block
from uncork.pycode.frames.layer_registry import LayerRegistry
from uncork.training.precision.dtype_policies import (
    MIXED_POLICIES,
    compute_in_float32,
    dtype_policies,
)


class IsolatedModule:
    """Runs as a graph that is traced when it is primed.

    Args:
        forward: Computes something; it is called once, to be traced.
        sources: What gradients are computed for.

    Example:
        >>> weight = tf.Variable(2.0)
        >>> alone = IsolatedModule(lambda: weight * weight, [weight])
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
        return time_block(self._runs(), seconds, 1.0)

    def _runs(self) -> Iterator[int]:
        while True:
            self._run()
            yield 1


def compare_model_in_float32(
    layers: LayerRegistry, batch_size: int, block_s: float
) -> Comparison | None:
    """The largest such model in float32 over the same as it is; None where it is in float32.

    What the model keeps besides its weights is given back.

    Args:
        layers: Of the script.
        batch_size: Samples of a step.
        block_s: Seconds of one block.
    """
    found = [(m, given) for m, given in layers.outermost_calls() if isinstance(m, keras.Model)]
    low = [
        (m, g) for m, g in found if any(policy in MIXED_POLICIES for policy in dtype_policies(m))
    ]
    if not low:
        return None
    model, given = max(low, key=lambda pair: int(pair[0].count_params()))
    x = tf.nest.map_structure(lambda spec: _ones(spec, batch_size), given)
    kept = [(v, v.numpy()) for v in model.non_trainable_variables]
    try:

        def forward() -> Any:
            return model(*x, training=True)

        weights = [v.value for v in model.trainable_variables]
        as_is, full = IsolatedModule(forward, weights), IsolatedModule(forward, weights)
        as_is.prime()
        with compute_in_float32(model):
            full.prime()
        return compare_few_pairs(as_is, full, block_s=block_s).comparison
    finally:
        for variable, value in kept:
            variable.assign(value)


def _ones(spec: Any, batch_size: int) -> Any:
    """As many samples as a step has, where only running tells how many."""
    return None if spec is None else tf.ones([n or batch_size for n in spec.shape], spec.dtype)
