"""On how many devices the weights of a training live, and larger batches for all of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import keras
import numpy as np
import tensorflow as tf


def replica_count(layers: Iterable[Any]) -> int:
    """The most replicas that one of their weights has.

    Args:
        layers: Of Keras.

    Example:
        >>> dense = keras.layers.Dense(1)
        >>> dense.build((None, 2))
        >>> replica_count([dense])
        1
    """
    weights = (w for each in layers if isinstance(each, keras.layers.Layer) for w in each.weights)
    strategies = (getattr(weight.value, "_distribute_strategy", None) for weight in weights)
    return max((s.num_replicas_in_sync for s in strategies if s is not None), default=1)


def repeat_batch(batch: Any, repetitions: int) -> Any:
    """The rows of a batch so many times over; on each device, where it is spread over several.

    Args:
        batch: Tensors or arrays in any structure; what else is in it stays.
        repetitions: How often.

    Example:
        >>> repeat_batch({"x": tf.constant([1, 2])}, 2)["x"].numpy()
        array([1, 2, 1, 2], dtype=int32)
    """
    return tf.nest.map_structure(lambda part: _longer(part, repetitions), batch)


def _longer(part: Any, times: int) -> Any:
    if hasattr(part, "assign"):
        return part  # a variable, on however many devices
    if isinstance(part, tf.distribute.DistributedValues):
        return type(part)([_longer(each, times) for each in part.values])
    if isinstance(part, tf.SparseTensor):
        return tf.sparse.concat(0, [part] * times)
    if isinstance(part, np.ndarray):
        part = tf.convert_to_tensor(part)
    if not isinstance(part, tf.Tensor | tf.RaggedTensor) or part.shape.rank == 0:
        return part
    with tf.device(getattr(part, "device", None)):
        return tf.concat([part] * times, 0)
