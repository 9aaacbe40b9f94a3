"""Elements, or parts of them, that are made and dropped, or made several times: ``wasted_work``.

Where one of so many is kept by its number, the others are some other worker's: ``unsharded_input``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from uncork.core.base.machine import Machine
from uncork.core.costmodel.attribution import costs_of
from uncork.core.costmodel.stage_cost import spared_s
from uncork.core.costmodel.step_cost import StepCosts, gain, passing
from uncork.core.documents.diagnosis import Cause, Finding, WorkloadDiagnosis
from uncork.core.evidence.stage_graph import cropping_maps, neighbours
from uncork.rules.base.thresholds import WORTH, bound, input_share, interval, ms, place

_EARLY_FILTER: Final = "drop elements before the expensive maps, as soon as what decides is known"
_EARLY_SHARD: Final = (
    "dataset.shard(workers, index) where the files are listed, in the same order for all workers "
    "(list_files(..., shuffle=False)), before all maps"
)
# Of its elements, what a worker keeps at most: of more the rest is laid aside, for a validation.
_SHARE: Final = 0.5


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """One finding for each stage that drops what was expensive, ignores it, or makes it again."""
    if input_share(diagnosis) <= 1 - 1 / WORTH:
        return
    costs = costs_of(diagnosis, machine.cpus)
    yield from _dropped(diagnosis, costs)
    yield from _ignored(diagnosis, costs)
    yield from _cropped(diagnosis, costs)
    yield from _repeated(diagnosis, costs)


def _dropped(diagnosis: WorkloadDiagnosis, costs: StepCosts) -> Iterator[Finding]:
    for below, stage in neighbours(diagnosis.stages):
        kept = passing(below, stage)
        if kept is not None:
            sharded = stage.by_number and kept <= _SHARE
            yield from _finding(
                diagnosis,
                costs,
                costs.fewer(stage.index, kept),
                stage.at,
                f"{place(stage)} keeps {kept:.0%} of its elements; what was done for the others",
                _EARLY_SHARD if sharded else _EARLY_FILTER,
                cause="unsharded_input" if sharded else "wasted_work",
            )


def _ignored(diagnosis: WorkloadDiagnosis, costs: StepCosts) -> Iterator[Finding]:
    """The one that wastes most: branches may ignore the same work, each for itself."""
    picking = [stage for stage in diagnosis.stages if stage.ignores]
    if not picking:
        return
    stage = max(picking, key=lambda each: gain(costs, costs.needed(each.ignores)))
    maker = max((diagnosis.stages[i] for i in stage.ignores), key=spared_s)
    yield from _finding(
        diagnosis,
        costs,
        costs.needed(stage.ignores),
        maker.at,
        f"{place(maker)} makes more than {place(stage)} looks at; what is made for nothing",
        "make in the map only what is used, or give the loader a switch for the rest",
    )


def _cropped(diagnosis: WorkloadDiagnosis, costs: StepCosts) -> Iterator[Finding]:
    for stage in diagnosis.stages:
        if stage.cropped_cpu_s_per_element is not None:
            decoding = cropping_maps(diagnosis.stages, stage.index)[0]
            crops = "it" if decoding is stage else place(stage)
            yield from _finding(
                diagnosis,
                costs,
                costs.cropped(stage.index),
                decoding.at,
                f"{place(decoding)} decodes its images whole, and {crops} crops them; what is "
                "decoded for nothing",
                "tf.image.decode_and_crop_jpeg, with the image's shape from "
                "tf.image.extract_jpeg_shape",
            )


def _repeated(diagnosis: WorkloadDiagnosis, costs: StepCosts) -> Iterator[Finding]:
    for stage in diagnosis.stages:
        if stage.repeated is not None:
            yield from _finding(
                diagnosis,
                costs,
                costs.once(stage.index),
                stage.repeated.at or stage.at,
                f"{stage.repeated.times} branches of this {stage.kind} make the same elements, "
                "each for itself; what all but one of them do",
                "make each element once, in one map that returns all parts",
            )


def _finding(
    diagnosis: WorkloadDiagnosis,
    costs: StepCosts,
    spared: StepCosts,
    at: str | None,
    what: str,
    remedy: str,
    cause: Cause = "wasted_work",
) -> Iterator[Finding]:
    upper = bound(diagnosis.step_s, spared.step_s())
    if gain(costs, spared) < WORTH or upper < WORTH:
        return
    yield Finding(
        cause=cause,
        share=min(input_share(diagnosis), 1 - 1 / upper),
        upper_bound=upper,
        interval=interval(diagnosis, "input", upper),
        at=at,
        evidence=f"{what} takes {ms(costs.cpu_s() - spared.cpu_s())} of CPU a step",
        remedy=remedy,
    )
