"""Labels written as rows with a single one in them, and what their zeros cost a step."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf

from uncork.core.evidence.model import OneHotLabels

# Labels of fewer numbers cost less than anything else in a step.
_LEAST_BYTES: Final = 1 << 20
# As many rows are timed; what more of them take is in proportion.
_TIMED_BYTES: Final = 64 << 20
_ROUNDS: Final = 5
_HOST: Final = "/device:CPU:0"


def measure_one_hot(labels: Sequence[Any], *, are_arrays: bool) -> OneHotLabels | None:
    """What one-hot labels of a cross-entropy cost beyond the same as whole numbers.

    Timed here: filling an array of that size once and copying it into a tensor, and the loss of
    random predictions with its gradient.

    Args:
        labels: Tensors and arrays that may be such; the largest that is counts.
        are_arrays: They are made as arrays for every step, and copied into a tensor.

    Returns:
        None where no labels are one-hot, or they are small.

    Example:
        >>> measure_one_hot([np.eye(1000, dtype="float32")], are_arrays=True).class_count
        1000
        >>> measure_one_hot([np.ones((1000, 1000), "float32")], are_arrays=True)
    """
    found = [np.asarray(leaf) for leaf in labels if _may_be(leaf)]
    one_hot = max(filter(_is_one_hot, found), key=lambda rows: rows.nbytes, default=None)
    if one_hot is None:
        return None
    rows = one_hot.reshape(-1, one_hot.shape[-1])
    timed = rows[: max(1, _TIMED_BYTES * len(rows) // one_hot.nbytes)]
    numbers = timed.argmax(-1)
    made, loss = (0.0, 0.0), _difference(*_losses(timed, numbers))
    if are_arrays:
        made = _difference(lambda: _fill(timed), lambda: _fill(numbers))
    scale = len(rows) / len(timed)
    return OneHotLabels(
        class_count=rows.shape[-1],
        batch_bytes=rows.nbytes,
        creation_s=made[0] * scale,
        creation_cpu_s=made[1] * scale,
        loss_s=loss[0] * scale,
        loss_cpu_s=loss[1] * scale,
    )


def _may_be(leaf: Any) -> bool:
    if not isinstance(leaf, (tf.Tensor, np.ndarray)) or len(leaf.shape) < 2:
        return False
    dtype = tf.as_dtype(leaf.dtype)
    if not (dtype.is_floating or dtype.is_integer or dtype.is_bool):
        return False
    return int(np.prod(leaf.shape)) * int(dtype.size) >= _LEAST_BYTES


def _is_one_hot(rows: Any) -> bool:
    ones = np.count_nonzero(rows, axis=-1)
    return bool((ones == 1).all()) and bool((rows.max(-1) == 1).all())


def _fill(labels: Any) -> None:
    with tf.device(_HOST):
        tf.cast(tf.constant(labels.copy()), tf.float32)


def _losses(wide: Any, numbers: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Loss and gradient with the labels as they are, and with their numbers."""
    logits = tf.random.stateless_normal(wide.shape, seed=(1, 2))
    losses = keras.losses

    def step(loss: Callable[..., Any], labels: Any) -> Callable[[], Any]:
        def gradient() -> Any:
            with tf.GradientTape() as tape:
                tape.watch(logits)
                value = tf.reduce_mean(loss(labels, logits, from_logits=True))
            return tf.reduce_sum(tape.gradient(value, logits))

        compiled = tf.function(gradient)
        return lambda: compiled().numpy()  # a device may still be at work when the call returns

    return (
        step(losses.categorical_crossentropy, tf.cast(tf.constant(wide), tf.float32)),
        step(losses.sparse_categorical_crossentropy, tf.constant(numbers)),
    )


def _difference(one: Callable[[], Any], other: Callable[[], Any]) -> tuple[float, float]:
    """Elapsed and CPU seconds that one takes longer than the other, timed in turn; 0 at least."""
    one(), other()
    found = [(_clock(one), _clock(other)) for _ in range(_ROUNDS)]
    wall_s, cpu_s = (
        max(0.0, statistics.median(slow[i] - fast[i] for slow, fast in found)) for i in (0, 1)
    )
    return wall_s, cpu_s


def _clock(call: Callable[[], Any]) -> tuple[float, float]:
    begin, cpu = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - begin, time.process_time() - cpu
