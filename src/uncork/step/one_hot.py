"""Labels written as rows with a single one in them, and what their zeros cost a step."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf

from uncork.core.diagnosis import OneHot

# Labels of fewer numbers cost less than anything else in a step.
_LEAST_BYTES: Final = 1 << 20
_ROUNDS: Final = 5


def one_hot_of(labels: Sequence[Any], *, with_loss: bool) -> OneHot | None:
    """What one-hot labels cost beyond the same as whole numbers; None where there are none.

    Timed here: filling an array of that size once, copying it into a tensor, and the cross-entropy
    of random predictions with its gradient. How the user's code makes them can only cost more.

    Args:
        labels: Tensors and arrays that may be such; the largest that is counts.
        with_loss: The loss is a categorical cross-entropy, as far as that is known.

    Example:
        >>> one_hot_of([np.eye(1000, dtype="float32")], with_loss=False).classes
        1000
        >>> one_hot_of([np.ones((1000, 1000), "float32")], with_loss=False)
    """
    found = [leaf for leaf in labels if _is_one_hot(leaf)]
    if not found:
        return None
    wide = np.asarray(max(found, key=lambda leaf: int(np.prod(leaf.shape))))
    made = _difference(lambda: _fill(wide), lambda: _fill(wide.argmax(-1)))
    loss = _difference(*_losses(wide)) if with_loss else (0.0, 0.0)
    return OneHot(
        classes=wide.shape[-1],
        bytes=wide.nbytes,
        made_s=made[0],
        made_cpu_s=made[1],
        loss_s=loss[0],
        loss_cpu_s=loss[1],
    )


def _is_one_hot(leaf: Any) -> bool:
    if not isinstance(leaf, (tf.Tensor, np.ndarray)) or len(leaf.shape) < 2:
        return False
    values = np.asarray(leaf)
    if values.dtype.kind not in "fiub" or values.nbytes < _LEAST_BYTES:
        return False
    ones = np.count_nonzero(values, axis=-1)
    return bool((ones == 1).all() and (values.max(-1) == 1).all())


def _fill(labels: Any) -> None:
    tf.cast(tf.constant(labels.copy()), tf.float32)


def _losses(wide: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Loss and gradient with the labels as they are, and with their numbers."""
    logits = tf.random.stateless_normal(wide.shape, seed=(1, 2))
    dense = tf.cast(tf.constant(wide), tf.float32)
    sparse = tf.constant(wide.argmax(-1))

    def step(loss: Callable[..., Any], labels: Any) -> Callable[[], Any]:
        def gradient() -> Any:
            with tf.GradientTape() as tape:
                tape.watch(logits)
                value = tf.reduce_mean(loss(labels, logits, from_logits=True))
            return tape.gradient(value, logits)

        compiled: Callable[[], Any] = tf.function(gradient)
        return compiled

    losses = keras.losses
    return (
        step(losses.categorical_crossentropy, dense),
        step(losses.sparse_categorical_crossentropy, sparse),
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
