"""The learning rate: for a larger batch, and while it is still being warmed up."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import keras
import tensorflow as tf

from uncork.compat.keras3.optimizer import CURRENT_RATE, method_of, rate_setting, step_counter
from uncork.core.edits.step import LargerBatch

# Their steps go by the gradient itself, which averages over the batch: the rate goes with the size.
_BY_GRADIENT: Final = (keras.optimizers.SGD,)


def learning_rate_factor(optimizer: Any, batch_multiplier: int) -> float:
    """What to multiply the learning rate by, for a batch so many times as large.

    Linear for plain gradients, the square root where the optimizer divides by their size.

    Args:
        optimizer: Of Keras.
        batch_multiplier: As many batches in one.

    Example:
        >>> (
        ...     learning_rate_factor(keras.optimizers.SGD(), 4),
        ...     learning_rate_factor(keras.optimizers.Adam(), 4),
        ... )
        (4.0, 2.0)

    Sources:
        Goyal et al., "Accurate, Large Minibatch SGD", 2017 (linear); Malladi et al., "On the SDEs
        and Scaling Rules for Adaptive Gradient Algorithms", 2022 (square root).
    """
    return float(batch_multiplier) if type(optimizer) in _BY_GRADIENT else batch_multiplier**0.5


def larger_batch_refusal(model: Any) -> str | None:
    """Why a model cannot train with a larger batch; None where it can."""
    optimizer = model.optimizer
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        return "the optimizer scales the loss, and skips steps when gradients overflow"
    if getattr(optimizer, "optimizers", None):
        return "several optimizers share the weights, and each has its own learning rate"
    if optimizer.gradient_accumulation_steps:
        return "the optimizer already accumulates gradients: gradient_accumulation_steps is set"
    if optimizer.use_ema:
        return "the optimizer averages weights over steps: use_ema is set"
    return None


@contextmanager
def rescale_learning_rate(
    optimizer: Any, edits: tuple[Any, ...], *, start_step: int | None = None
) -> Iterator[None]:
    """What is traced inside updates with the learning rate of the larger batch.

    A schedule goes on by samples, as before: from here on a step counts for as many as it takes the
    place of.
    Whoever asks in Python, a callback that lowers the rate among them, is told the rate as written.

    Args:
        optimizer: Of Keras.
        edits: Of the step; those that make the batch no larger leave all as it is.
        start_step: Its count when the first step of the larger batch was made; None for as it is
            now.
    """
    larger = next((edit for edit in edits if isinstance(edit, LargerBatch)), None)
    if larger is None:
        yield
        return
    times, factor = larger.batch_multiplier, larger.learning_rate_multiplier
    start_step = int(optimizer.iterations) if start_step is None else start_step
    as_written = method_of(optimizer, CURRENT_RATE)

    def rate() -> Any:
        now, given = as_written, rate_setting(optimizer)
        if isinstance(given, keras.optimizers.schedules.LearningRateSchedule):
            done = step_counter(optimizer) - start_step
            now = functools.partial(given, start_step + done * times)
        return now() if tf.executing_eagerly() else now() * factor

    object.__setattr__(optimizer, CURRENT_RATE, rate)
    try:
        yield
    finally:
        object.__delattr__(optimizer, CURRENT_RATE)


# Of the largest rate to come, below which next to nothing is learned yet.
_LITTLE: Final = 0.1
_POINTS: Final = 8
# Times as many steps are looked ahead.
_AHEAD: Final = (1, 4, 16, 64, 256, 1024)


def is_warming_up(optimizer: Any, steps: int) -> bool:
    """Within so many steps a schedule stays far below what it comes to later.

    Trainings that are compared over these steps agree whatever else is done to them.

    Args:
        optimizer: Of Keras; where it holds others, those inside count.
        steps: From where it stands.

    Example:
        >>> slow = keras.optimizers.schedules.CosineDecay(
        ...     0.0, 20_000, warmup_target=1e-3, warmup_steps=10_000
        ... )
        >>> (
        ...     is_warming_up(keras.optimizers.Adam(slow), 400),
        ...     is_warming_up(keras.optimizers.Adam(), 400),
        ... )
        (True, False)
    """
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    several = getattr(inner, "optimizers", None)
    if several:
        return any(is_warming_up(each, steps) for each in several)
    rate = rate_setting(inner)
    if not isinstance(rate, keras.optimizers.schedules.LearningRateSchedule):
        return False
    begin = int(inner.iterations)
    soon = [begin + steps * point // _POINTS for point in range(_POINTS + 1)]
    later = [begin + steps * times for times in _AHEAD]
    try:
        now, then = (max(float(rate(step)) for step in places) for places in (soon, later))
    except Exception:  # a schedule of the user's, which may not go on so far
        return False
    return now < _LITTLE * then
