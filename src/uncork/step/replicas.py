"""On how many devices the weights of a training live."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import keras


def replicas_of(layers: Iterable[Any]) -> int:
    """The most replicas that one of their weights has.

    Args:
        layers: Of Keras.

    Example:
        >>> dense = keras.layers.Dense(1)
        >>> dense.build((None, 2))
        >>> replicas_of([dense])
        1
    """
    weights = (w for each in layers if isinstance(each, keras.layers.Layer) for w in each.weights)
    strategies = (getattr(weight.value, "_distribute_strategy", None) for weight in weights)
    return max((s.num_replicas_in_sync for s in strategies if s is not None), default=1)
