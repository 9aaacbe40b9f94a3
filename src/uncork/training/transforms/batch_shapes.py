"""What XLA takes to compile a step anew, for each batch of a shape that it has not seen."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import tensorflow as tf

from uncork.core.evidence.batches import NewShapes, OpenAxis, PaddedShapes

# Of a batch: that of each tensor in it.
Shapes = tuple[tuple[int, ...], ...]
# Of which numbers lengths may be made multiples.
_MULTIPLES: Final = (8, 16, 32, 64, 128, 256)


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
