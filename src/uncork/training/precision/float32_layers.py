"""Layers that only draw at random: which of a model may stay in float32 under a mixed policy.

In 16 bits a layer draws other numbers from the same seed, and coarser ones. The training is then
another one from its first step on, as under another seed, and nothing can be said of the precision.

Layers that a low precision harms first: which of a model stay in float32 where it is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import keras

from uncork.compat.hook_targets import is_keras_layer_class
from uncork.compat.keras3.functional import Functional, calls_of, history_of, nodes_of
from uncork.compat.keras3.layers import flatten_layers, seed_generators

# Their own product over what was dropped takes either dtype, and what follows it casts.
_ATTENTION: Final = (keras.layers.MultiHeadAttention, keras.layers.GroupQueryAttention)


def random_layer_names(model: Any) -> tuple[str, ...]:
    """Names of the layers that only draw, where whatever comes after takes either precision.

    So it is between the layers of a ``Sequential`` or functional model, each of which casts what it
    is given, and within Keras's attention. In a ``call`` of the user's own nobody may cast.

    Args:
        model: Or a layer; built or not.

    Example:
        >>> drop, dense = keras.layers.Dropout(0.5, name="drop"), keras.layers.Dense(2)
        >>> random_layer_names(keras.Sequential([keras.Input((3,)), drop, dense]))
        ('drop',)
    """
    return tuple(dict.fromkeys(layer.name for layer in find_random_layers(model)))


def find_random_layers(model: Any) -> tuple[Any, ...]:
    """The same layers themselves: Keras counts names, and a second model has others.

    Args:
        model: As of :func:`random_layer_names`.
    """
    containers = [each for each in flatten_layers(model) if _hands_on(each)]
    found = (each for container in containers for each in _within(container.layers))
    inner = (layer for each in found for layer in flatten_layers(each))
    return tuple({id(layer): layer for layer in inner}.values())


def _hands_on(layer: Any) -> bool:
    """What its layers return goes to other layers and to Keras's operations only."""
    return type(layer).call in (keras.Sequential.call, Functional.call)


def _within(layers: list[Any]) -> Iterator[Any]:
    for layer in layers:
        if type(layer) in _ATTENTION:
            yield from _within(flatten_layers(layer, include_self=False))
        elif _only_draws(layer):
            yield layer


def _only_draws(layer: Any) -> bool:
    return is_keras_layer_class(type(layer)) and bool(seed_generators(layer)) and not layer.weights


# Sums and differences of many numbers, which 8 or 11 bits round away.
_NORMALIZING: Final = tuple(
    getattr(keras.layers, name)
    for name in (
        "BatchNormalization", "GroupNormalization", "LayerNormalization", "Normalization",
        "RMSNormalization", "Softmax", "UnitNormalization",
    )
    if hasattr(keras.layers, name)
)  # fmt: skip


def precision_sensitive_layer_names(model: Any) -> tuple[str, ...]:
    """Names of the layers that give a model's outputs, and of those that normalize.

    What the loss is computed from, and what subtracts a mean, suffers first from few bits; Keras's
    own guide keeps the last layer in float32.

    Args:
        model: Sequential or functional; of another one nobody knows what its ``call`` casts.

    Example:
        >>> layers = keras.layers
        >>> hidden, norm = layers.Dense(4, name="hidden"), layers.LayerNormalization(name="norm")
        >>> logits, last = layers.Dense(2, name="logits"), layers.Softmax(name="last")
        >>> precision_sensitive_layer_names(
        ...     keras.Sequential([keras.Input((3,)), hidden, norm, logits, last])
        ... )
        ('last', 'logits', 'norm')
    """
    return tuple(dict.fromkeys(layer.name for layer in find_precision_sensitive_layers(model)))


def find_precision_sensitive_layers(model: Any) -> tuple[Any, ...]:
    """The same layers themselves, with all that they hold.

    Args:
        model: As of :func:`precision_sensitive_layer_names`.
    """
    if not _contains_layers(model):
        return ()
    norms = (layer for layer in _handed_on(model) if isinstance(layer, _NORMALIZING))
    inner = (layer for each in (*_last(model), *norms) for layer in flatten_layers(each))
    return tuple({id(layer): layer for layer in inner}.values())


def _handed_on(model: Any) -> Iterator[Any]:
    """Layers whose outputs are handed on; in a call of the user's own they meet other ones."""
    for layer in model.layers:
        yield layer
        if _contains_layers(layer):
            yield from _handed_on(layer)


def _last(model: Any) -> Iterator[Any]:
    """What gives the outputs; and what that only turns into another form, down to weights."""
    if type(model).call is keras.Sequential.call:
        for layer in reversed(model.layers):
            yield from _last(layer) if _contains_layers(layer) else [layer]
            if layer.weights:
                return
        return
    tensors, seen = list(keras.tree.flatten(model.outputs)), set[int]()
    # A layer may stand in other models as well.
    own = {id(node) for node in nodes_of(model)}
    while tensors:
        layer = history_of(tensors.pop()).operation
        if id(layer) in seen or not isinstance(layer, keras.layers.Layer):
            continue
        seen.add(id(layer))
        yield from _last(layer) if _contains_layers(layer) else [layer]
        if not layer.weights:
            nodes = [node for node in calls_of(layer) if id(node) in own]
            tensors += [tensor for node in nodes for tensor in node.input_tensors]


def _contains_layers(layer: Any) -> bool:
    """What its layers return goes to other layers and to Keras's operations only."""
    return type(layer).call in (keras.Sequential.call, Functional.call)
