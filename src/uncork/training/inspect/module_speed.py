"""The model that a loop of the user's own trains, as it is and in float32.

The loop's step was compiled by its author, and cannot be built anew from outside. The model by
itself can: forward and backward, on ones of the shape that the step gave it.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from uncork.core.layers import Layers
from uncork.core.measurement import Comparison
from uncork.measure.interleave import paired
from uncork.step.alone import Alone
from uncork.step.dtype_policies import MIXED, computing_in_float32, dtype_policies


def in_float32(layers: Layers, batch_size: int, block_s: float) -> Comparison | None:
    """The largest such model in float32 over the same as it is; None where it is in float32.

    What the model keeps besides its weights is given back.

    Args:
        layers: Of the script.
        batch_size: Samples of a step.
        block_s: Seconds of one block.
    """
    found = [(m, given) for m, given in layers.outermost() if isinstance(m, keras.Model)]
    low = [(m, g) for m, g in found if any(policy in MIXED for policy in dtype_policies(m))]
    if not low:
        return None
    model, given = max(low, key=lambda pair: int(pair[0].count_params()))
    x = tf.nest.map_structure(lambda spec: _ones(spec, batch_size), given)
    kept = [(v, v.numpy()) for v in model.non_trainable_variables]
    try:

        def forward() -> Any:
            return model(*x, training=True)

        weights = [v.value for v in model.trainable_variables]
        as_is, full = Alone(forward, weights), Alone(forward, weights)
        as_is.prime()
        with computing_in_float32(model):
            full.prime()
        return paired(as_is, full, block_s=block_s).comparison
    finally:
        for variable, value in kept:
            variable.assign(value)


def _ones(spec: Any, batch_size: int) -> Any:
    """As many samples as a step has, where only running tells how many."""
    return None if spec is None else tf.ones([n or batch_size for n in spec.shape], spec.dtype)
