"""How long TensorFlow has spent tracing Python functions into graphs, by its own counter."""

from __future__ import annotations

from tensorflow.python.eager.polymorphic_function import tracing_compilation

# TensorFlow's metric "/tensorflow/core/tf_function/graph_building_time_usecs": functions traced
# while another is traced are not counted twice.
_COUNTER = getattr(tracing_compilation, "_graph_building_time_counter", None)


def tracing_s() -> float:
    """Seconds since the process began; 0 where this TensorFlow does not count them.

    Example:
        >>> import tensorflow as tf
        >>> before = tracing_s()
        >>> _ = tf.function(lambda x: x + 1)(1)
        >>> tracing_s() > before
        True
    """
    return 0.0 if _COUNTER is None else _COUNTER.get_cell().value() / 1e6
