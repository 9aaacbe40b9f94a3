"""A learning rate that is still being warmed up: what trains now is not what trains later."""

from __future__ import annotations

from typing import Any, Final

import keras

# Of the largest rate to come, below which next to nothing is learned yet.
_LITTLE: Final = 0.1
_POINTS: Final = 8
# Times as many steps are looked ahead.
_AHEAD: Final = (1, 4, 16, 64, 256, 1024)


def warms_up(optimizer: Any, steps: int) -> bool:
    """Within so many steps a schedule stays far below what it comes to later.

    Trainings that are compared over these steps agree whatever else is done to them.

    Args:
        optimizer: Of Keras; where it holds others, those inside count.
        steps: From where it stands.

    Example:
        >>> slow = keras.optimizers.schedules.CosineDecay(
        ...     0.0, 20_000, warmup_target=1e-3, warmup_steps=10_000)
        >>> warms_up(keras.optimizers.Adam(slow), 400), warms_up(keras.optimizers.Adam(), 400)
        (True, False)
    """
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    several = getattr(inner, "optimizers", None)
    if several:
        return any(warms_up(each, steps) for each in several)
    rate = getattr(inner, "_learning_rate", None)
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
