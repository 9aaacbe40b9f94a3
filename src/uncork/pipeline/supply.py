"""How fast a whole pipeline is when nobody else needs the machine."""

from __future__ import annotations

import time
from typing import Any

import tensorflow as tf

from uncork.pipeline.seeded import state_kept
from uncork.pipeline.tree import read


def supply(dataset: Any, *, budget_s: float) -> tuple[float, float]:
    """How fast the whole pipeline gives batches when nobody else needs the machine.

    Args:
        dataset: As it would be trained on; started anew when it ends, as epochs do.
        budget_s: Seconds to iterate, or what two batches take. The first half, in which buffers
            and caches fill, is not counted.

    Returns:
        Batches per second and CPU seconds per batch; ``(0.0, 0.0)`` for an empty dataset.

    Example:
        >>> rate, cpu_s = supply(tf.data.Dataset.range(100).batch(10), budget_s=0.05)
        >>> rate > 0
        True
    """
    with state_kept(read(dataset)):
        return _steady_rate(dataset, budget_s)


def _steady_rate(dataset: Any, budget_s: float) -> tuple[float, float]:
    marks = _marks(dataset, budget_s)
    if len(marks) < 2:
        return 0.0, 0.0
    half = marks[0][0] + (marks[-1][0] - marks[0][0]) / 2
    late = [mark for mark in marks if mark[0] >= half]
    late = late if len(late) > 1 else marks
    batches = len(late) - 1
    wall, cpu = late[-1][0] - late[0][0], late[-1][1] - late[0][1]
    return (batches / wall if wall > 0 else 0.0), cpu / batches


def _marks(dataset: Any, budget_s: float) -> list[tuple[float, float]]:
    """Elapsed and CPU time at the arrival of each batch."""
    marks: list[tuple[float, float]] = []
    deadline = time.perf_counter() + budget_s
    while len(marks) < 2 or time.perf_counter() < deadline:
        seen = len(marks)
        try:
            for _ in dataset:
                marks.append((time.perf_counter(), time.process_time()))
                if len(marks) > 1 and marks[-1][0] > deadline:
                    return marks
        except tf.errors.OpError:
            pass
        if len(marks) == seen:
            break
    return marks
