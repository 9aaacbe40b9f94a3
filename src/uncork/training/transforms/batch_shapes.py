"""What XLA takes to compile a step anew, for each batch of a shape that it has not seen."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import tensorflow as tf

from uncork.core.evidence.batches import PaddedShapes, VaryingAxis, VaryingShapes

# Of a batch: that of each tensor in it.
BatchShapes = tuple[tuple[int, ...], ...]
# Of which numbers lengths may be made multiples.
_MULTIPLES: Final = (8, 16, 32, 64, 128, 256)


def summarize_shapes(
    seen_shapes: Sequence[BatchShapes], compile_s: float, padding_values: Sequence[float]
) -> VaryingShapes:
    """What was seen of batches of several shapes, and what filling them up would leave of these.

    Args:
        seen_shapes: Shapes of batches.
        compile_s: For one of them.
        padding_values: As of :func:`new_shapes_of`.
    """
    counts = [*Counter(seen_shapes).values()]
    axes = _axes(seen_shapes, padding_values)
    return VaryingShapes(
        batch_count=len(seen_shapes),
        shape_count=len(counts),
        seen_once=counts.count(1),
        seen_twice=counts.count(2),
        compile_s_per_shape=compile_s,
        axes=axes,
        padded_shapes=tuple(
            _padded(seen_shapes, axes, multiple) for multiple in _MULTIPLES if axes
        ),
    )


def _axes(known: Sequence[BatchShapes], fills: Sequence[float]) -> tuple[VaryingAxis, ...]:
    """In which batches differ, but for the rows that they have; none where they differ in more."""
    ranks = {tuple(map(len, shapes)) for shapes in known}
    if len(ranks) > 1 or not fills:
        return ()
    (rank,) = ranks
    each = ((n, axis) for n in range(len(fills)) for axis in range(1, rank[n]))
    lengths = {(n, axis): {shapes[n][axis] for shapes in known} for n, axis in each}
    return tuple(
        VaryingAxis(tensor_index=n, axis=axis, max_length=max(seen), padding_value=fills[n])
        for (n, axis), seen in lengths.items()
        if len(seen) > 1
    )


def _padded(
    known: Sequence[BatchShapes], axes: tuple[VaryingAxis, ...], multiple: int
) -> PaddedShapes:
    filled = [pad_shapes(shapes, axes, multiple) for shapes in known]
    before, after = (sum(map(_numbers, shapes)) for shapes in (known, filled))
    met = [*Counter(filled).values()]
    return PaddedShapes(
        multiple=multiple,
        shape_count=len(met),
        seen_once=met.count(1),
        seen_twice=met.count(2),
        size_ratio=after / before if before else 1.0,
    )


def pad_shapes(shapes: BatchShapes, axes: tuple[VaryingAxis, ...], multiple: int) -> BatchShapes:
    """What becomes of a batch's shapes.

    Example:
        >>> axes = (VaryingAxis(tensor_index=0, axis=1, max_length=20),)
        >>> pad_shapes(((32, 13), (32,)), axes, 8), pad_shapes(((32, 18), (32,)), axes, 8)
        (((32, 16), (32,)), ((32, 20), (32,)))
    """
    found = [list(shape) for shape in shapes]
    for each in axes:
        length = found[each.tensor_index][each.axis]
        filled = min(-(-length // multiple) * multiple, each.max_length)
        found[each.tensor_index][each.axis] = max(length, filled)
    return tuple(map(tuple, found))


def _numbers(shapes: BatchShapes) -> int:
    return sum(map(math.prod, shapes))


def _shapes(batch: Any) -> BatchShapes:
    parts = tf.nest.flatten(batch, expand_composites=True)
    return tuple(tuple(part.shape) for part in parts if isinstance(part, tf.Tensor))
