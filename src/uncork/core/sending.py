"""What a training that is sent its batches would gain by being sent less."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

from uncork.core.attribution import costs_of
from uncork.core.costmodel import gain
from uncork.core.diagnosis import WorkloadDiagnosis
from uncork.core.facts import Transfer
from uncork.core.record import Record, replace
from uncork.core.stage import Stage
from uncork.core.stage_costs import free

# Bytes that a map makes of each one where it makes floats of them; labels may come along.
_FLOATS: Final = (3.5, 8.5)


class Sparing(Record, frozen=True, kw_only=True):
    """How batches could be smaller when they are sent.

    Attributes:
        share: Of the bytes, that could be spared: 0 to 1.
        by: The map that makes them more; None where that is not known.
    """

    share: float
    by: Stage | None = None


def sparing(transfer: Transfer, stages: Sequence[Stage]) -> Sparing | None:
    """What need not be sent; None where a batch is as narrow as it can be.

    Args:
        transfer: Of a batch as it is sent now.
        stages: Of the pipeline that gives it.
    """
    for below, stage in reversed(list(itertools.pairwise(stages))):
        given, made = _given(below, stage), stage.bytes_per_element
        if stage.in_step and given and made and made > given:
            return Sparing(share=1 - given / made, by=stage)
    if not transfer.too_wide:
        return None
    for below, stage in reversed(list(itertools.pairwise(stages))):
        given, made = below.bytes_per_element, stage.bytes_per_element
        if stage.kind == "map" and given and made and _FLOATS[0] <= made / given <= _FLOATS[1]:
            return Sparing(share=transfer.needless, by=stage)
    return Sparing(share=transfer.needless)


def gain_by(
    diagnosis: WorkloadDiagnosis, transfer: Transfer, spared: Sparing, cpus: float
) -> float:
    """Times as fast as it is, by the cost model; a device makes floats of bytes in no time."""
    costs = costs_of(diagnosis, cpus)
    wall_s, cpu_s = spared.share * transfer.wall_s, spared.share * transfer.cpu_s
    after = costs.with_step_sparing(wall_s, cpu_s)
    if spared.by is not None:
        after = after.without([spared.by.index])
    after_s = after.step_s()
    return min(gain(costs, after), max(1.0, diagnosis.step_s / after_s) if after_s > 0 else 1.0)


def left_to_the_step(stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """The stages of a pipeline whose last map is done by the training step.

    Example:
        >>> cast = Stage(index=1, kind="map", in_step="4f2a", cpu_s_per_element=0.01)
        >>> left_to_the_step([cast])[0].cpu_s_per_element
        0.0
    """
    return tuple(replace(free(s), in_step="") if s.in_step else s for s in stages)


def _given(below: Stage, stage: Stage) -> int | None:
    """Bytes of an element as the step would be given it."""
    first = stage.vectorized.first_bytes if stage.vectorized else None
    return below.bytes_per_element if first is None else first
