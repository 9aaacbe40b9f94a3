"""Layers that only draw at random: which of a model may stay in float32 under a mixed policy.

In 16 bits a layer draws other numbers from the same seed, and coarser ones. The training is then
another one from its first step on, as under another seed, and nothing can be said of the precision.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import keras
from keras.src.models.functional import Functional

# Their own product over what was dropped takes either dtype, and what follows it casts.
_ATTENTION: Final = (keras.layers.MultiHeadAttention, keras.layers.GroupQueryAttention)


def random_layers(model: Any) -> tuple[str, ...]:
    """Names of the layers that only draw, where whatever comes after takes either precision.

    So it is between the layers of a ``Sequential`` or functional model, each of which casts what it
    is given, and within Keras's attention. In a ``call`` of the user's own nobody may cast.

    Args:
        model: Or a layer; built or not.

    Example:
        >>> drop, dense = keras.layers.Dropout(0.5, name="drop"), keras.layers.Dense(2)
        >>> random_layers(keras.Sequential([keras.Input((3,)), drop, dense]))
        ('drop',)
    """
    return tuple(dict.fromkeys(layer.name for layer in only_drawing(model)))


def only_drawing(model: Any) -> tuple[Any, ...]:
    """The same layers themselves: Keras counts names, and a second model has others.

    Args:
        model: As of :func:`random_layers`.
    """
    containers = [each for each in model._flatten_layers() if _hands_on(each)]
    found = (each for container in containers for each in _within(container.layers))
    inner = (layer for each in found for layer in each._flatten_layers())
    return tuple({id(layer): layer for layer in inner}.values())


def _hands_on(layer: Any) -> bool:
    """What its layers return goes to other layers and to Keras's operations only."""
    return type(layer).call in (keras.Sequential.call, Functional.call)


def _within(layers: list[Any]) -> Iterator[Any]:
    for layer in layers:
        if type(layer) in _ATTENTION:
            yield from _within(layer._flatten_layers(include_self=False))
        elif _only_draws(layer):
            yield layer


def _only_draws(layer: Any) -> bool:
    is_keras_s = type(layer).__module__.startswith("keras.src.layers.")
    return is_keras_s and bool(layer._seed_generators) and not layer.weights
