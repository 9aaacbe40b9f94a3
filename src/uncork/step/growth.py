"""State that grows with every step of a ``fit``, and makes each step longer than the one before."""

from __future__ import annotations

from contextlib import closing
from typing import Any, Final

import numpy as np
import tensorflow as tf

from uncork.core.facts import Growth
from uncork.step.runner import FitRunner
from uncork.step.snapshot import foreign
from uncork.watch import only_change

# A line is laid through the times of this many steps at least.
_FEWEST: Final = 20


def growth_of(runner: FitRunner, model: Any, seconds: float) -> Growth | None:
    """Let some steps run, and see what has grown; None where nothing has.

    Args:
        runner: Of the model on batches from memory; it begins where ``fit`` would.
        model: The user's.
        seconds: How long to look.
    """
    open_ended = [(n, v) for n, v in foreign(model) if not v.shape.is_fully_defined()]
    if not open_ended:
        return None
    times: list[float] = []
    with closing(runner.times()) as steps:
        for step_s in steps:
            times.append(step_s)
            if len(times) == 1:  # it may have begun with nothing
                first = [_bytes(variable) for _, variable in open_ended]
            if sum(times) > seconds:
                break
        grown = [_bytes(v) - size for (_, v), size in zip(open_ended, first, strict=True)]
    most = int(np.argmax(grown))
    if grown[most] <= 0 or len(times) < _FEWEST:
        return None
    added_s, first_s = np.polyfit(np.arange(len(times)), times, 1)
    return Growth(
        name=open_ended[most][0],
        bytes_per_step=grown[most] / (len(times) - 1),
        first_s=max(float(first_s), float(min(times))),
        added_s=float(added_s),
        at=only_change(open_ended[most][0]),
    )


def _bytes(variable: Any) -> int:
    return int(tf.size(variable)) * int(variable.dtype.size)
