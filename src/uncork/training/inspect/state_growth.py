"""State that grows with every step of a ``fit``, and makes each step longer than the one before."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any, Final

import numpy as np
import tensorflow as tf

from uncork.core.evidence.loop import StateGrowth
from uncork.pycode.frames.value_origin import find_only_assignment
from uncork.training.run.fit_runner import FitRunner
from uncork.training.state.snapshot import find_untracked_variables

# A line is laid through the times of this many steps at least.
_FEWEST: Final = 20
# Of more than so many, every second or third does.
_MOST: Final = 500
# Copies of some megabytes stay in caches and in memory that the allocator has at hand; what the
# later ones cost shows only after a while.
_LEAST_S: Final = 3.0
# Steps at the beginning that are longer for other reasons.
_UNSETTLED: Final = 3


def measure_state_growth(runner: FitRunner, model: Any, seconds: float) -> StateGrowth | None:
    """Let some steps run, and see what has grown; None where nothing has.

    Args:
        runner: Of the model on batches from memory; it begins where ``fit`` would.
        model: The user's.
        seconds: How long to look, and not below three of them.
    """
    open_ended = [
        (n, v) for n, v in find_untracked_variables(model) if not v.shape.is_fully_defined()
    ]
    if not open_ended:
        return None
    times: list[float] = []
    with closing(runner.execution_times()) as steps:
        for step_s in steps:
            times.append(step_s)
            if len(times) == 1:  # it may have begun with nothing
                first = [_bytes(variable) for _, variable in open_ended]
            if sum(times) > max(seconds, _LEAST_S):
                break
        grown = [_bytes(v) - size for (_, v), size in zip(open_ended, first, strict=True)]
    most = int(np.argmax(grown))
    if grown[most] <= 0 or len(times) < _FEWEST:
        return None
    first_s, added_s = fit_trend(times[_UNSETTLED:])
    return StateGrowth(
        name=open_ended[most][0],
        bytes_per_step=grown[most] / (len(times) - 1),
        first_step_s=max(first_s, min(times)),
        added_s_per_step=added_s,
        at=find_only_assignment(open_ended[most][0]),
    )


def fit_trend(durations_s: Sequence[float]) -> tuple[float, float]:
    """Where a line through some times begins, and how steep it is: the medians of Theil and Sen.

    Single steps that were held up, and there are some on every machine, do not turn it.

    Example:
        >>> begin, slope = fit_trend([9.0, 1.0, 1.5, 2.0, 2.5, 3.0])
        >>> begin, slope
        (0.5, 0.5)
    """
    at = np.arange(0, len(durations_s), 1 + len(durations_s) // _MOST)
    found = np.asarray(durations_s)[at]
    early, late = np.triu_indices(len(found), 1)
    slope = float(np.median((found[late] - found[early]) / (late - early)))
    return float(np.median(found - slope * at)), slope


def _bytes(variable: Any) -> int:
    return int(tf.size(variable)) * int(variable.dtype.size)
