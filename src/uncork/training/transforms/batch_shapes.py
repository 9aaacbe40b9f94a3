"""What XLA takes to compile a step anew, for each batch of a shape that it has not seen."""

from __future__ import annotations

import math
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from typing import Any, Final

import tensorflow as tf

from uncork.core.batch_facts import NewShapes, OpenAxis, PaddedShapes
from uncork.step.feed import Feed, executions
from uncork.step.runner import FitRunner

# Of a batch: that of each tensor in it.
Shapes = tuple[tuple[int, ...], ...]
# Batches whose shapes are looked at.
_MOST: Final = 1024
# Of which numbers lengths may be made multiples.
_MULTIPLES: Final = (8, 16, 32, 64, 128, 256)


def shapes_of(feed: Feed, model: Any, seconds: float) -> list[Shapes]:
    """Read the first batches of a training, over several epochs if these are short.

    Args:
        feed: What feeds it.
        model: That is trained.
        seconds: How long to read.

    Example:
        >>> import keras
        >>> data = tf.data.Dataset.from_tensor_slices([3, 5]).map(lambda size: tf.zeros((2, size)))
        >>> model = keras.Sequential([keras.Input((None,)), keras.layers.Identity()])
        >>> [shape for (shape,) in shapes_of(Feed(x=data), model, seconds=60.0)[:3]]
        [(2, 3), (2, 5), (2, 3)]
    """
    found: list[Shapes] = []
    until = time.monotonic() + seconds
    with feed.reading(model) as epochs:
        before = -1
        while before < len(found):  # as fit does, from epoch to epoch
            before = len(found)
            with epochs.catch_stop_iteration():
                for begin, end, iterator in executions(epochs):
                    # The last execution of an epoch may be for more batches than there are.
                    for _ in range(begin, min(end + 1, epochs.num_batches or end + 1)):
                        found.append(_shapes(next(iterator)))
                    if time.monotonic() > until or len(found) >= _MOST:
                        return found
    return found


def new_shapes_of(
    runner: FitRunner,
    batches: Sequence[Any],
    step_s: float,
    seconds: float,
    seen: Sequence[Shapes] = (),
    fills: Sequence[float] = (),
) -> NewShapes | None:
    """Compile a step for some of its batches; None where one shape is all there is.

    Args:
        runner: Of the batches from memory, by a step that was not compiled yet.
        batches: The same, in their order.
        step_s: Of a step that is compiled.
        seconds: How long to look; at least one shape beside the first is compiled.
        seen: Shapes of more batches, from :func:`shapes_of`.
        fills: What each tensor of a batch may be filled up with, from
            :func:`~uncork.step.pad_lengths.fills_of`; none where they may not.
    """
    shapes = [_shapes(batch) for batch in batches]
    known = max(shapes, seen, key=len)
    if len(set(shapes)) < 2:
        return None
    ready, compiled, spent_s = set(shapes[:1]), [], 0.0
    with closing(runner.times(primed=False)) as steps:
        for number, (shape, one_s) in enumerate(zip(shapes, steps, strict=False)):
            spent_s += one_s if number else 0.0  # the first one is traced, too
            if shape not in ready:
                ready.add(shape)
                compiled.append(one_s)
                if spent_s > seconds:
                    break
    return counted(known, max(0.0, statistics.fmean(compiled) - step_s), fills)


def counted(known: Sequence[Shapes], compile_s: float, fills: Sequence[float]) -> NewShapes:
    """What was seen of batches of several shapes, and what filling them up would leave of these.

    Args:
        known: Shapes of batches.
        compile_s: For one of them.
        fills: As of :func:`new_shapes_of`.
    """
    counts = [*Counter(known).values()]
    axes = _axes(known, fills)
    return NewShapes(
        batches=len(known),
        shapes=len(counts),
        once=counts.count(1),
        twice=counts.count(2),
        compile_s=compile_s,
        axes=axes,
        padded=tuple(_padded(known, axes, multiple) for multiple in _MULTIPLES if axes),
    )


def _axes(known: Sequence[Shapes], fills: Sequence[float]) -> tuple[OpenAxis, ...]:
    """In which batches differ, but for the rows that they have; none where they differ in more."""
    ranks = {tuple(map(len, shapes)) for shapes in known}
    if len(ranks) > 1 or not fills:
        return ()
    (rank,) = ranks
    each = ((n, axis) for n in range(len(fills)) for axis in range(1, rank[n]))
    lengths = {(n, axis): {shapes[n][axis] for shapes in known} for n, axis in each}
    return tuple(
        OpenAxis(tensor=n, axis=axis, longest=max(seen), fill=fills[n])
        for (n, axis), seen in lengths.items()
        if len(seen) > 1
    )


def _padded(known: Sequence[Shapes], axes: tuple[OpenAxis, ...], multiple: int) -> PaddedShapes:
    filled = [filled_up(shapes, axes, multiple) for shapes in known]
    before, after = (sum(map(_numbers, shapes)) for shapes in (known, filled))
    met = [*Counter(filled).values()]
    return PaddedShapes(
        multiple=multiple,
        shapes=len(met),
        once=met.count(1),
        twice=met.count(2),
        larger=after / before if before else 1.0,
    )


def filled_up(shapes: Shapes, axes: tuple[OpenAxis, ...], multiple: int) -> Shapes:
    """What becomes of a batch's shapes.

    Example:
        >>> axes = (OpenAxis(tensor=0, axis=1, longest=20),)
        >>> filled_up(((32, 13), (32,)), axes, 8), filled_up(((32, 18), (32,)), axes, 8)
        (((32, 16), (32,)), ((32, 20), (32,)))
    """
    found = [list(shape) for shape in shapes]
    for each in axes:
        length = found[each.tensor][each.axis]
        filled = min(-(-length // multiple) * multiple, each.longest)
        found[each.tensor][each.axis] = max(length, filled)
    return tuple(map(tuple, found))


def _numbers(shapes: Shapes) -> int:
    return sum(map(math.prod, shapes))


def _shapes(batch: Any) -> Shapes:
    parts = tf.nest.flatten(batch, expand_composites=True)
    return tuple(tuple(part.shape) for part in parts if isinstance(part, tf.Tensor))
