"""What a training that is sent its batches would gain by being sent less."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

from uncork.core.base.record import Record, replace
from uncork.core.costmodel.attribution import costs_of
from uncork.core.costmodel.stage_cost import free
from uncork.core.costmodel.step_cost import gain
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.evidence.model import Transfer
from uncork.core.evidence.stage import InStep, Stage

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
    in_step = [stage for stage in stages if stage.kind == "map" and stage.in_step]
    if in_step:
        best = max(in_step, key=_spared)
        return Sparing(share=_spared(best), by=best)
    if not transfer.too_wide:
        return None
    for below, stage in reversed(list(itertools.pairwise(stages))):
        given, made = below.bytes_per_element, stage.bytes_per_element
        if stage.kind == "map" and given and made and _FLOATS[0] <= made / given <= _FLOATS[1]:
            return Sparing(share=transfer.needless, by=stage)
    return Sparing(share=transfer.needless)


def rows_of(diagnosis: WorkloadDiagnosis) -> InStep | None:
    """The arrays that a training takes rows from, where its step could gather them."""
    sources = (s.in_step for s in diagnosis.stages if s.in_step and s.kind != "map")
    return next(sources, diagnosis.workload.arrays_in_step)


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


def left_to_the_step(stages: Sequence[Stage], digest: str) -> tuple[Stage, ...]:
    """The stages of a pipeline whose last maps are done by the training step.

    Args:
        stages: Of the pipeline, with those maps.
        digest: Of what the step does.

    Example:
        >>> from uncork.core.evidence.stage import InStep
        >>> cast = Stage(index=1, kind="map", in_step=InStep(digest="4f2a", spared=0.75))
        >>> left_to_the_step([replace(cast, cpu_s_per_element=0.01)], "4f2a")[0].cpu_s_per_element
        0.0
    """
    lowest = min(
        (s.index for s in stages if s.in_step and s.in_step.digest == digest), default=None
    )
    if lowest is None:
        return tuple(stages)
    return tuple(
        replace(free(s), in_step=None) if s.index >= lowest and s.kind == "map" else s
        for s in stages
    )


def _spared(stage: Stage) -> float:
    return stage.in_step.spared if stage.in_step else 0.0
