"""Elements, or parts of them, that are made and dropped, or made several times: ``wasted_work``.

Where one of so many is kept by its number, the others are some other worker's: ``unsharded_input``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from uncork.core.base.machine import Machine
from uncork.core.costmodel.attribution import attribute_costs
from uncork.core.costmodel.stage_cost import unused_outputs_cpu_s
from uncork.core.costmodel.step_cost import StepCosts, pass_rate, predict_gain
from uncork.core.documents.diagnosis import Cause, Finding, WorkloadDiagnosis
from uncork.core.evidence.stage_graph import consecutive_stages, find_cropping_maps
from uncork.rules.base.findings import costs_bound, input_finding, waits_for_input
from uncork.rules.base.thresholds import format_ms, stage_label

_EARLY_FILTER: Final = (
    "filter before the expensive maps, as soon as the value that decides is known"
)
_EARLY_SHARD: Final = (
    "call dataset.shard(workers, index) where the files are listed, in the same order for all "
    "workers (list_files(..., shuffle=False)), before all maps"
)
# Of its elements, what a worker keeps at most: of more the rest is laid aside, for a validation.
_SHARE: Final = 0.5


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """One finding for each stage that drops what was expensive, ignores it, or makes it again."""
    if not waits_for_input(diagnosis):
        return
    costs = attribute_costs(diagnosis, machine.cpus)
    yield from _dropped(diagnosis, costs)
    yield from _ignored(diagnosis, costs)
    yield from _cropped(diagnosis, costs)
    yield from _repeated(diagnosis, costs)


def _dropped(diagnosis: WorkloadDiagnosis, costs: StepCosts) -> Iterator[Finding]:
    for below, stage in consecutive_stages(diagnosis.stages):
        kept = pass_rate(below, stage)
        if kept is not None:
            sharded = stage.is_index_based and kept <= _SHARE
            yield from _finding(
                diagnosis,
                costs,
                costs.with_upstream_share(stage.index, kept),
                stage.at,
                f"{stage_label(stage)} keeps {kept:.0%} of its elements; the work for the others",
                _EARLY_SHARD if sharded else _EARLY_FILTER,
                cause="unsharded_input" if sharded else "wasted_work",
            )


def _ignored(diagnosis: WorkloadDiagnosis, costs: StepCosts) -> Iterator[Finding]:
    """The one that wastes most: branches may ignore the same work, each for itself."""
    picking = [stage for stage in diagnosis.stages if stage.unused_output_maps]
    if not picking:
        return
    stage = max(
        picking,
        key=lambda each: predict_gain(costs, costs.without_unused_outputs(each.unused_output_maps)),
    )
    maker = max((diagnosis.stages[i] for i in stage.unused_output_maps), key=unused_outputs_cpu_s)
    yield from _finding(
        diagnosis,
        costs,
        costs.without_unused_outputs(stage.unused_output_maps),
        maker.at,
        f"{stage_label(maker)} computes outputs that {stage_label(stage)} does not use; computing "
        "them",
        "compute only what is used, or give the loader a switch for the rest",
    )


def _cropped(diagnosis: WorkloadDiagnosis, costs: StepCosts) -> Iterator[Finding]:
    for stage in diagnosis.stages:
        if stage.cropped_cpu_s_per_element is not None:
            decoding = find_cropping_maps(diagnosis.stages, stage.index)[0]
            crops = "it" if decoding is stage else stage_label(stage)
            yield from _finding(
                diagnosis,
                costs,
                costs.with_partial_decode(stage.index),
                decoding.at,
                f"{stage_label(decoding)} decodes whole images, and {crops} crops them; decoding "
                "what is discarded",
                "use tf.image.decode_and_crop_jpeg, with the image's shape from "
                "tf.image.extract_jpeg_shape",
            )


def _repeated(diagnosis: WorkloadDiagnosis, costs: StepCosts) -> Iterator[Finding]:
    for stage in diagnosis.stages:
        if stage.repeated_work is not None:
            yield from _finding(
                diagnosis,
                costs,
                costs.without_repeated_work(stage.index),
                stage.repeated_work.at or stage.at,
                f"{stage.repeated_work.repetitions} branches of this {stage.kind} compute the same "
                "elements separately; the work of all but one branch",
                "compute each element once, in one map that returns all parts",
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
    upper = costs_bound(diagnosis, costs, spared)
    evidence = f"{what} takes {format_ms(costs.cpu_s() - spared.cpu_s())} of CPU a step"
    yield from input_finding(diagnosis, cause, upper, at, evidence, remedy)
