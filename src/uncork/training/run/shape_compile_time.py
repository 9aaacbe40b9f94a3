"""What XLA takes to compile a step anew, for each batch of a shape that it has not seen."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from contextlib import closing
from typing import Any, Final

from uncork.core.evidence.batches import VaryingShapes
from uncork.training.input.feed import Feed, iterate_executions
from uncork.training.run.fit_runner import FitRunner
from uncork.training.transforms.batch_shapes import BatchShapes, _shapes, summarize_shapes

# Batches whose shapes are looked at.
_MOST: Final = 1024


def read_batch_shapes(feed: Feed, model: Any, seconds: float) -> list[BatchShapes]:
    """Read the first batches of a training, over several epochs if these are short.

    Args:
        feed: What feeds it.
        model: That is trained.
        seconds: How long to read.

    Example:
        >>> import keras, tensorflow as tf
        >>> data = tf.data.Dataset.from_tensor_slices([3, 5]).map(lambda size: tf.zeros((2, size)))
        >>> model = keras.Sequential([keras.Input((None,)), keras.layers.Identity()])
        >>> [shape for (shape,) in read_batch_shapes(Feed(x=data), model, seconds=1.0)[:3]]
        [(2, 3), (2, 5), (2, 3)]
    """
    found: list[BatchShapes] = []
    until = time.monotonic() + seconds
    with feed.open_epoch_iterator(model) as epochs:
        before = -1
        while before < len(found):  # as fit does, from epoch to epoch
            before = len(found)
            with epochs.catch_stop_iteration():
                for begin, end, iterator in iterate_executions(epochs):
                    # The last execution of an epoch may be for more batches than there are.
                    for _ in range(begin, min(end + 1, epochs.num_batches or end + 1)):
                        found.append(_shapes(next(iterator)))
                    if time.monotonic() > until or len(found) >= _MOST:
                        return found
    return found


def measure_varying_shapes(
    runner: FitRunner,
    batches: Sequence[Any],
    step_s: float,
    seconds: float,
    seen_shapes: Sequence[BatchShapes] = (),
    padding_values: Sequence[float] = (),
) -> VaryingShapes | None:
    """Compile a step for some of its batches; None where one shape is all there is.

    Args:
        runner: Of the batches from memory, by a step that was not compiled yet.
        batches: The same, in their order.
        step_s: Of a step that is compiled.
        seconds: How long to look; at least one shape beside the first is compiled.
        seen_shapes: Shapes of more batches, from :func:`read_batch_shapes`.
        padding_values: What each tensor of a batch may be filled up with, from
            :func:`~uncork.training.transforms.pad_lengths.find_padding_values`; none where they may
            not.
    """
    shapes = [_shapes(batch) for batch in batches]
    known = max(shapes, seen_shapes, key=len)
    if len(set(shapes)) < 2:
        return None
    ready, compiled, spent_s = set(shapes[:1]), [], 0.0
    with closing(runner.execution_times(is_primed=False)) as steps:
        for number, (shape, one_s) in enumerate(zip(shapes, steps, strict=False)):
            spent_s += one_s if number else 0.0  # the first one is traced, too
            if shape not in ready:
                ready.add(shape)
                compiled.append(one_s)
                if spent_s > seconds:
                    break
    return summarize_shapes(known, max(0.0, statistics.fmean(compiled) - step_s), padding_values)
