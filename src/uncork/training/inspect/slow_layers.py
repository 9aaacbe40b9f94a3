"""Layers with an argument that no fast kernel knows, and what it costs.

A copy of such a layer is timed by itself, with the argument and without it; the user's own layer is
left alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

import keras
import tensorflow as tf

from uncork.compat.keras3.layers import built_shapes
from uncork.compat.random_state import random_state, set_random_state
from uncork.core.evidence.kernels import KernelGroup
from uncork.core.evidence.model import SlowLayer
from uncork.measure.benchmark.interleave import compare_few_pairs
from uncork.measure.machine.devices import best_device
from uncork.pycode.frames.layer_registry import LayerRegistry
from uncork.training.inspect.module_speed import IsolatedModule

# Of all kernels of the step; and how many layers are looked at.
_WORTH: Final = 0.1
_MOST: Final = 3
_BLOCK_S: Final = 0.3
# All that cuDNN's recurrent kernels compute; anything else runs step by step (Keras's rnn.py).
_OF_CUDNN: Final = {
    "activation": "tanh",
    "recurrent_activation": "sigmoid",
    "use_bias": True,
    "unroll": False,
    "reset_after": True,
}


def find_slow_layers(
    layers: LayerRegistry, parts: Sequence[KernelGroup], batch_size: int
) -> Iterator[SlowLayer]:
    """Those of the longest parts of a step that pay for an argument, each with its price.

    Args:
        layers: Of the script.
        parts: Of the step's kernels.
        batch_size: Samples of a step.
    """
    made = {
        (type(layer).__name__, layers.creation_location(layer)): layer
        for layer in layers.live_layers()
    }
    shares: Counter[tuple[str, str | None]] = Counter()
    for part in parts:
        shares[part.layer, part.at] += part.share  # type: ignore[assignment]
    for (name, at), share in shares.most_common(_MOST):
        layer = made.get((name, at))
        # A layer of the user's own, a length that only running tells: left alone.
        with suppress(Exception):
            for argument, without in _arguments(layer) if share >= _WORTH else ():
                faster = _priced(layer, {argument: without}, batch_size)
                yield SlowLayer(
                    layer=name, argument=argument, at=at, speedup_without_argument=faster
                )


def _arguments(layer: Any) -> Iterator[tuple[str, Any]]:
    """At fault, perhaps, with what to hold against them."""
    if isinstance(layer, keras.layers.RNN) and getattr(layer, "recurrent_dropout", 0) > 0:
        yield "recurrent_dropout", 0.0
    elif isinstance(layer, keras.layers.LSTM | keras.layers.GRU) and best_device() == "GPU":
        config = layer.get_config()
        for argument, known in _OF_CUDNN.items():
            if argument in config and config[argument] != known:
                yield argument, known


def _priced(layer: Any, change: dict[str, Any], batch_size: int) -> Any:
    (shape,) = built_shapes(layer).values()
    random = random_state()
    try:
        as_is, without = (
            _alone(_copy(layer, shape, changed), (batch_size, *shape[1:]))
            for changed in ({}, change)
        )
        as_is.prime()
        without.prime()
        return compare_few_pairs(as_is, without, block_s=_BLOCK_S).comparison
    finally:
        set_random_state(random)


def _copy(layer: Any, shape: Any, change: dict[str, Any]) -> Any:
    copy = type(layer).from_config({**layer.get_config(), **change})
    copy.build(shape)
    return copy


def _alone(layer: Any, shape: Sequence[int]) -> IsolatedModule:
    x = tf.ones(shape, layer.compute_dtype)
    sources = [x, *(v.value for v in layer.trainable_variables)]
    return IsolatedModule(lambda: layer(x, training=True), sources)
