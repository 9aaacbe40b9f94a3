"""How fast a whole pipeline is when nobody else needs the machine."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from uncork.pipeline.equivalence.seeded_twin import preserve_state
from uncork.pipeline.ir.tree import Pipeline, read_pipeline
from uncork.pipeline.profile.autotune_values import autotuned_parallelism


@dataclass(frozen=True)
class SupplyRate:
    """A whole pipeline, read by itself.

    Attributes:
        batches_per_s: 0.0 for an empty dataset.
        cpu_s_per_batch: CPU seconds of a batch, likewise.
        autotuned_parallelism: What the autotuner chose, by the index of the stage (see
            :func:`autotuned_parallelism`).
    """

    batches_per_s: float
    cpu_s_per_batch: float = 0.0
    autotuned_parallelism: Mapping[int, int] = field(default_factory=dict)


def measure_supply(dataset: Any, *, budget_s: float) -> SupplyRate:
    """How fast the whole pipeline gives batches when nobody else needs the machine.

    Args:
        dataset: As it would be trained on; started anew when it ends, as epochs do.
        budget_s: Seconds to iterate, or what two batches take. The first half, in which buffers
            and caches fill, is not counted.

    Example:
        >>> measure_supply(tf.data.Dataset.range(100).batch(10), budget_s=0.05).batches_per_s > 0
        True
    """
    pipeline = read_pipeline(dataset)
    with preserve_state(pipeline):
        return _supplied(pipeline, budget_s)


def _supplied(pipeline: Pipeline, budget_s: float) -> SupplyRate:
    marks, chosen = _marks(pipeline, budget_s)
    if len(marks) < 2:
        return SupplyRate(0.0)
    half = marks[0][0] + (marks[-1][0] - marks[0][0]) / 2
    late = [mark for mark in marks if mark[0] >= half]
    late = late if len(late) > 1 else marks
    batches = len(late) - 1
    wall, cpu = late[-1][0] - late[0][0], late[-1][1] - late[0][1]
    return SupplyRate(batches / wall if wall > 0 else 0.0, cpu / batches, chosen)


def _marks(pipeline: Pipeline, budget_s: float) -> tuple[list[tuple[float, float]], dict[int, int]]:
    """Elapsed and CPU time at the arrival of each batch; and what the autotuner chose by then."""
    marks: list[tuple[float, float]] = []
    read_longest, longest = None, 0
    deadline = time.perf_counter() + budget_s
    while len(marks) < 2 or time.perf_counter() < deadline:
        seen = len(marks)
        with suppress(tf.errors.OpError):
            iterator = iter(pipeline.dataset)
            for _ in iterator:
                marks.append((time.perf_counter(), time.process_time()))
                if len(marks) > 1 and marks[-1][0] > deadline:
                    break
            if len(marks) - seen >= longest:  # in which the autotuner has had most time
                longest, read_longest = len(marks) - seen, iterator
        if len(marks) == seen:
            break
    return marks, {} if read_longest is None else autotuned_parallelism(pipeline, read_longest)
