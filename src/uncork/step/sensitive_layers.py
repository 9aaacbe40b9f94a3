"""Layers that a low precision harms first: which of a model stay in float32 where it is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import keras
from keras.src.models.functional import Functional

# Sums and differences of many numbers, which 8 or 11 bits round away.
_NORMALIZING: Final = tuple(
    getattr(keras.layers, name)
    for name in (
        "BatchNormalization", "GroupNormalization", "LayerNormalization", "Normalization",
        "RMSNormalization", "Softmax", "UnitNormalization",
    )
    if hasattr(keras.layers, name)
)  # fmt: skip


def sensitive_layers(model: Any) -> tuple[str, ...]:
    """Names of the layers that give a model's outputs, and of those that normalize.

    What the loss is computed from, and what subtracts a mean, suffers first from few bits; Keras's
    own guide keeps the last layer in float32.

    Args:
        model: Sequential or functional; of another one nobody knows what its ``call`` casts.

    Example:
        >>> layers = keras.layers
        >>> hidden, norm = layers.Dense(4, name="hidden"), layers.LayerNormalization(name="norm")
        >>> logits, last = layers.Dense(2, name="logits"), layers.Softmax(name="last")
        >>> sensitive_layers(keras.Sequential([keras.Input((3,)), hidden, norm, logits, last]))
        ('last', 'logits', 'norm')
    """
    if type(model).call not in (keras.Sequential.call, Functional.call):
        return ()
    norms = (each for each in model._flatten_layers() if isinstance(each, _NORMALIZING))
    return tuple(dict.fromkeys(layer.name for layer in (*_last(model), *norms)))


def _last(model: Any) -> Iterator[Any]:
    """What gives the outputs; and what that only turns into another form, down to weights."""
    if type(model).call is keras.Sequential.call:
        below = list(reversed(model.layers))
        for layer in below:
            yield from _last(layer) if _is_model(layer) else [layer]
            if layer.weights:
                return
        return
    tensors, seen = list(keras.tree.flatten(model.outputs)), set[int]()
    while tensors:
        layer = tensors.pop()._keras_history.operation
        if id(layer) in seen or not isinstance(layer, keras.layers.Layer):
            continue
        seen.add(id(layer))
        yield from _last(layer) if _is_model(layer) else [layer]
        if not layer.weights:
            tensors += [t for node in layer._inbound_nodes for t in node.input_tensors]


def _is_model(layer: Any) -> bool:
    return type(layer).call in (keras.Sequential.call, Functional.call)
