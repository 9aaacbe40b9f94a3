"""What a training that is sent its batches would gain by being sent less."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

from uncork.core.base.record import Record, replace
from uncork.core.costmodel.attribution import attribute_costs
from uncork.core.costmodel.stage_cost import as_free
from uncork.core.costmodel.step_cost import predict_gain
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.evidence.model import Transfer
from uncork.core.evidence.stage import Stage, StepOffload

# Bytes that a map makes of each one where it makes floats of them; labels may come along.
_FLOATS: Final = (3.5, 8.5)


class TransferSaving(Record, frozen=True, kw_only=True):
    """How batches could be smaller when they are sent.

    Attributes:
        share: Of the bytes, that could be spared: 0 to 1.
        widening_map: The map that makes them more; None where that is not known.
    """

    share: float
    widening_map: Stage | None = None


def find_transfer_saving(transfer: Transfer, stages: Sequence[Stage]) -> TransferSaving | None:
    """What need not be sent; None where a batch is as narrow as it can be.

    Args:
        transfer: Of a batch as it is sent now.
        stages: Of the pipeline that gives it.
    """
    in_step = [stage for stage in stages if stage.kind == "map" and stage.step_offload]
    if in_step:
        best = max(in_step, key=_spared)
        return TransferSaving(share=_spared(best), widening_map=best)
    if not transfer.is_too_wide:
        return None
    for below, stage in reversed(list(itertools.pairwise(stages))):
        given, made = below.bytes_per_element, stage.bytes_per_element
        if stage.kind == "map" and given and made and _FLOATS[0] <= made / given <= _FLOATS[1]:
            return TransferSaving(share=transfer.avoidable_share, widening_map=stage)
    return TransferSaving(share=transfer.avoidable_share)


def find_array_offload(diagnosis: WorkloadDiagnosis) -> StepOffload | None:
    """The arrays that a training takes rows from, where its step could gather them."""
    sources = (s.step_offload for s in diagnosis.stages if s.step_offload and s.kind != "map")
    return next(sources, diagnosis.workload.array_offload)


def predict_transfer_gain(
    diagnosis: WorkloadDiagnosis, transfer: Transfer, saving: TransferSaving, cpus: float
) -> float:
    """Times as fast as it is, by the cost model; a device makes floats of bytes in no time."""
    costs = attribute_costs(diagnosis, cpus)
    wall_s, cpu_s = saving.share * transfer.wall_s, saving.share * transfer.cpu_s
    after = costs.with_faster_consumer(wall_s, cpu_s)
    if saving.widening_map is not None:
        after = after.without_stages([saving.widening_map.index])
    after_s = after.step_s()
    return min(
        predict_gain(costs, after), max(1.0, diagnosis.step_s / after_s) if after_s > 0 else 1.0
    )


def without_offloaded_maps(stages: Sequence[Stage], digest: str) -> tuple[Stage, ...]:
    """The stages of a pipeline whose last maps are done by the training step.

    Args:
        stages: Of the pipeline, with those maps.
        digest: Of what the step does.

    Example:
        >>> from uncork.core.evidence.stage import StepOffload
        >>> cast = Stage(
        ...     index=1,
        ...     kind="map",
        ...     step_offload=StepOffload(digest="4f2a", saved_transfer_share=0.75),
        ... )
        >>> without_offloaded_maps([replace(cast, cpu_s_per_element=0.01)], "4f2a")[
        ...     0
        ... ].cpu_s_per_element
        0.0
    """
    lowest = min(
        (s.index for s in stages if s.step_offload and s.step_offload.digest == digest),
        default=None,
    )
    if lowest is None:
        return tuple(stages)
    return tuple(
        replace(as_free(s), step_offload=None) if s.index >= lowest and s.kind == "map" else s
        for s in stages
    )


def _spared(stage: Stage) -> float:
    return stage.step_offload.saved_transfer_share if stage.step_offload else 0.0
