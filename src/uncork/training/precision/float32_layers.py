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
    return tuple(dict.fromkeys(layer.name for layer in sensitive(model)))


def sensitive(model: Any) -> tuple[Any, ...]:
    """The same layers themselves, with all that they hold.

    Args:
        model: As of :func:`sensitive_layers`.
    """
    if not _hands_on(model):
        return ()
    norms = (layer for layer in _handed_on(model) if isinstance(layer, _NORMALIZING))
    inner = (layer for each in (*_last(model), *norms) for layer in each._flatten_layers())
    return tuple({id(layer): layer for layer in inner}.values())


def _handed_on(model: Any) -> Iterator[Any]:
    """Layers whose outputs are handed on; in a call of the user's own they meet other ones."""
    for layer in model.layers:
        yield layer
        if _hands_on(layer):
            yield from _handed_on(layer)


def _last(model: Any) -> Iterator[Any]:
    """What gives the outputs; and what that only turns into another form, down to weights."""
    if type(model).call is keras.Sequential.call:
        for layer in reversed(model.layers):
            yield from _last(layer) if _hands_on(layer) else [layer]
            if layer.weights:
                return
        return
    tensors, seen = list(keras.tree.flatten(model.outputs)), set[int]()
    # A layer may stand in other models as well.
    own = {id(node) for nodes in model._nodes_by_depth.values() for node in nodes}
    while tensors:
        layer = tensors.pop()._keras_history.operation
        if id(layer) in seen or not isinstance(layer, keras.layers.Layer):
            continue
        seen.add(id(layer))
        yield from _last(layer) if _hands_on(layer) else [layer]
        if not layer.weights:
            nodes = [node for node in layer._inbound_nodes if id(node) in own]
            tensors += [tensor for node in nodes for tensor in node.input_tensors]


def _hands_on(layer: Any) -> bool:
    """What its layers return goes to other layers and to Keras's operations only."""
    return type(layer).call in (keras.Sequential.call, Functional.call)
