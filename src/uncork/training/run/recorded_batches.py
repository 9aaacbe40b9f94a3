"""Different batches of a training kept in memory, and trained on in turn: is the input slow?"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from contextlib import closing
from itertools import islice
from typing import Any, Final

import tensorflow as tf

from uncork.core.evidence.batches import RecordedBatches
from uncork.training.input.feed import Feed, iterate_executions
from uncork.training.run.fit_runner import FitRunner

# Batches of an epoch's beginning, and their bytes. Each may have to be compiled.
_MOST: Final = 12
_MOST_BYTES: Final = 128 << 20
_LEAST: Final = 3


def record_batches(feed: Feed, model: Any, seconds: float) -> tuple[list[Any], float]:
    """The first batches of an epoch, and seconds from a new iterator to the first one.

    Args:
        feed: What feeds the training.
        model: That is trained.
        seconds: How long to read beyond the first batches.

    Returns:
        The batches; and what the first one took beyond a later one, seconds.

    Example:
        >>> import keras
        >>> model = keras.Sequential([keras.Input((1,)), keras.layers.Identity()])
        >>> data = tf.data.Dataset.range(6).map(lambda n: tf.fill((2, 1), float(n)))
        >>> batches, start_s = record_batches(Feed(x=data), model, seconds=1.0)
        >>> len(batches), start_s >= 0
        (6, True)
    """
    found: list[Any] = []
    taken: list[float] = []
    begin = last = time.perf_counter()
    with feed.open_epoch_iterator(model) as epochs, epochs.catch_stop_iteration():
        for first, end, iterator in iterate_executions(epochs):
            for _ in range(first, min(end + 1, epochs.num_batches or end + 1)):
                found.append(next(iterator))
                now = time.perf_counter()
                taken.append(now - last)
                last = now
            held = sum(map(_bytes, found))
            late = len(found) >= _LEAST and now - begin > seconds
            if late or len(found) >= _MOST or held > _MOST_BYTES:
                break
    later_s = statistics.median(taken[1:]) if len(taken) > 1 else 0.0
    return found, max(0.0, taken[0] - later_s) if taken else 0.0


def measure_recorded_batches(
    runner: FitRunner, batches: Sequence[Any], seconds: float, *, start_s: float = 0.0
) -> RecordedBatches | None:
    """Train on batches from memory, each for the first time and then again.

    Args:
        runner: Of these batches, by a step that has met none of them.
        batches: In the order of the runner.
        seconds: How long at most, beyond a first round.
        start_s: Of a new iterator, from :func:`record_batches`.

    Returns:
        None of fewer than three batches, or where the time ended before any came again.
    """
    count = len(batches)
    if count < _LEAST:
        return None
    new: list[float] = []
    known: list[float] = []
    begin = time.perf_counter()
    with closing(runner.execution_times(is_primed=False)) as steps:
        for number, step_s in enumerate(islice(steps, 3 * count)):
            (new if number < count else known).append(step_s)
            if len(known) >= count and time.perf_counter() - begin > seconds:
                break
    if not known:
        return None
    return RecordedBatches(
        batch_count=count,
        new_step_s=statistics.fmean(new[1:]),  # the first one of all is traced
        known_step_s=statistics.fmean(known),
        start_s=start_s,
    )


def _bytes(batch: Any) -> int:
    parts = tf.nest.flatten(batch, expand_composites=True)
    return sum(
        int(part.shape.num_elements() or 0) * int(part.dtype.size)
        for part in parts
        if isinstance(part, tf.Tensor)
    )
