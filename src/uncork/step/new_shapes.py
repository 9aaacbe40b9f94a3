"""What XLA takes to compile a step anew, for each batch of a shape that it has not seen."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import tensorflow as tf

from uncork.core.facts import NewShapes
from uncork.step.runner import FitRunner


def new_shapes_of(
    runner: FitRunner, batches: Sequence[Any], step_s: float, seconds: float
) -> NewShapes | None:
    """Compile a step for some of its batches; None where one shape is all there is.

    Args:
        runner: Of the batches from memory, by a step that was not compiled yet.
        batches: The same, in their order.
        step_s: Of a step that is compiled.
        seconds: How long to look; at least one shape beside the first is compiled.
    """
    shapes = [_shapes(batch) for batch in batches]
    counts = Counter(shapes)
    if len(counts) < 2:
        return None
    seen, compiled, spent_s = set(shapes[:1]), [], 0.0
    with closing(runner.times(primed=False)) as steps:
        for number, (shape, one_s) in enumerate(zip(shapes, steps, strict=False)):
            spent_s += one_s if number else 0.0  # the first one is traced, too
            if shape not in seen:
                seen.add(shape)
                compiled.append(one_s)
                if spent_s > seconds:
                    break
    return NewShapes(
        batches=len(shapes),
        shapes=len(counts),
        once=sum(count == 1 for count in counts.values()),
        twice=sum(count == 2 for count in counts.values()),
        compile_s=max(0.0, statistics.fmean(compiled) - step_s),
    )


def _shapes(batch: Any) -> tuple[tuple[int, ...], ...]:
    parts = tf.nest.flatten(batch, expand_composites=True)
    return tuple(tuple(part.shape) for part in parts if isinstance(part, tf.Tensor))
