"""Arrays that are copied for nothing at every step: ``array_copies``.

Into tensors, where a loop hands the same arrays over at each call; or whole, where a loader
computes on all of an array to use a few rows of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from uncork.core.base.machine import Machine
from uncork.core.costmodel.attribution import attribute_costs
from uncork.core.costmodel.step_cost import predict_gain
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.core.evidence.stage import Stage
from uncork.rules.base.findings import input_finding
from uncork.rules.base.thresholds import format_ms, resident_step_s, speedup_bound, stage_label


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """One finding for arrays copied into tensors, one for each loader that copies whole arrays."""
    for stage in diagnosis.stages:
        if stage.kind == "convert":
            yield from _into_tensors(diagnosis, stage)
        elif stage.array_copy is not None:
            yield from _whole(diagnosis, stage, machine.cpus)


def _into_tensors(diagnosis: WorkloadDiagnosis, stage: Stage) -> Iterator[Finding]:
    """What a step is handed unchanged each time need be copied only once."""
    copy_s = stage.wall_s_per_element or 0.0
    # Copying and the step were timed apart: what is left is no less than the step by itself.
    without_s = max(diagnosis.step_s - copy_s, resident_step_s(diagnosis))
    upper = speedup_bound(diagnosis.step_s, without_s)
    evidence = (
        f"each call copies the same {(stage.bytes_per_element or 0) / 1e6:,.0f} MB of NumPy arrays "
        f"into tensors: {format_ms(copy_s)} of a {format_ms(diagnosis.step_s)} step"
    )
    remedy = (
        "call tf.constant(array) once, before the loop, if nothing writes into the array later; "
        "'uncork tune' copies it only when it has changed (array_arguments)"
    )
    yield from input_finding(
        diagnosis, "array_copies", upper, stage.at, evidence, remedy, share=1 - 1 / upper
    )


def _whole(diagnosis: WorkloadDiagnosis, stage: Stage, cpus: float) -> Iterator[Finding]:
    """What is computed on a whole array could be computed on the rows that a batch takes."""
    copied = stage.array_copy
    assert copied is not None
    costs = attribute_costs(diagnosis, cpus)
    spared = copied.share * (1 - copied.batch_bytes / copied.copied_bytes)
    after = costs.with_stages_share([stage.index], 1 - spared)
    upper = min(predict_gain(costs, after), speedup_bound(diagnosis.step_s, after.step_s()))
    evidence = (
        f"{stage_label(stage)} writes {copied.copied_bytes / 1e6:,.0f} MB for a batch of "
        f"{copied.batch_bytes / 1e6:.3g} MB, which takes {copied.share:.0%} of its "
        f"{format_ms(stage.wall_s_per_element)} a call"
    )
    remedy = "select the rows first, then compute on them"
    yield from input_finding(
        diagnosis, "array_copies", upper, copied.at, evidence, remedy, share=1 - 1 / upper
    )
