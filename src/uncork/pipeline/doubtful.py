"""Stages whose cost, as a difference of two large ones, may be noise: timed by themselves, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from uncork.pipeline.handing_on import CHOOSING, handed
from uncork.pipeline.kinds import Dataset
from uncork.pipeline.measured import Measured
from uncork.pipeline.probes import take_turns

# Of all that a step's batch costs; of what a map is made from.
_TRIFLE: Final = 0.02
_LOST_IN_NOISE: Final = 0.2


def time_alone(stages: Sequence[Measured], budget_s: float) -> None:
    """Time on elements in memory what seems to cost, where its difference may be noise.

    Args:
        stages: With the costs that are differences.
        budget_s: Seconds for it, roughly.
    """
    doubtful = [stage for stage in stages if _is_doubtful(stage, stages)]
    for stage in doubtful:
        some_s = budget_s / len(doubtful) / 4
        stage.handed = handed(stage.node, elements_like(stage.below[0], some_s), budget_s=some_s)
    probes = [probe for stage in doubtful for probe in stage.quick_probes]
    if probes:
        take_turns(probes, budget_s / 2)


def _is_doubtful(stage: Measured, stages: Sequence[Measured]) -> bool:
    """It seems to cost, but no more than noise may come to, or than a map below may cause.

    What such a map loses with handing its calls to another thread can be several times its work.
    """
    below = stages[stage.first : stage.index]
    if stage.cpu_s_per_step <= _TRIFLE * sum(each.cpu_s_per_step for each in stages):
        return False
    hands_on = stage.node.kind in ("shuffle", "batch")
    if hands_on and any(each.node.kind == "map" for each in below):
        return True
    return stage.cpu_s_per_step < 2 * sum(each.cpu_s_per_step for each in below)


def alone(stage: Measured, under: float) -> tuple[float, float] | None:
    """CPU and elapsed seconds on a few elements in memory, where that tells more.

    Elements differ, so it does of a map or a filter only where what they are made from takes so
    long that the difference would be noise.

    Args:
        stage: After :func:`time_alone`.
        under: CPU seconds of what one of its elements is made from.
    """
    found = stage.handed.medians() if stage.handed else None
    if found is not None and stage.node.kind == "filter":
        (inputs,) = stage.inputs
        found = None if inputs is None else (inputs * found[0], inputs * found[1])
    differs = stage.node.kind in ("map", "filter")
    return None if found is None or (differs and found[0] > _LOST_IN_NOISE * under) else found


def elements_like(stage: Measured, budget_s: float) -> Dataset:
    """Elements like those that a stage gives, made as quickly as may be.

    Shuffles and filters may take long to give one, and batches need many.
    """
    while stage.node.kind in CHOOSING and len(stage.below) == 1:
        stage = stage.below[0]
    if stage.node.kind == "batch":
        few = handed(stage.node, elements_like(stage.below[0], budget_s), budget_s=budget_s)
        return few.handed_on.dataset if few else stage.dataset
    return stage.dataset
