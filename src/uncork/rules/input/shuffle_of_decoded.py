"""A shuffle that holds pictures where names would do: ``shuffle_of_decoded``."""

from __future__ import annotations

from collections.abc import Iterator

from uncork.core.base.machine import Machine
from uncork.core.costmodel.attribution import attribute_costs, unexplained_cpu_s
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.core.evidence.stage import ShuffleBuffer
from uncork.rules.base.findings import step_finding
from uncork.rules.base.thresholds import speedup_bound


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """One finding for each shuffle that is filled with dear elements while the training waits."""
    costs = attribute_costs(diagnosis, machine.cpus).without_unattributed_cpu(
        unexplained_cpu_s(diagnosis)
    )
    for stage in diagnosis.stages:
        if stage.shuffle_buffer is None or not stage.elements_per_step:
            continue
        upper = speedup_bound(costs.shuffle_refill_step_s(stage.index), costs.step_s())
        steps = stage.shuffle_buffer.elements_per_pass / stage.elements_per_step
        filling_s = (costs.shuffle_refill_step_s(stage.index) - costs.step_s()) * steps
        evidence = (
            f"each pass fills its buffer of {stage.shuffle_buffer.element_count:,} elements before "
            f"the first batch, while the training waits: {filling_s:.2g} s; "
            f"{_held(stage.bytes_per_element, stage.shuffle_buffer)}"
        )
        remedy = (
            "call shuffle() before the maps: shuffle names, indices or records instead of decoded "
            "data"
        )
        yield from step_finding(diagnosis, "shuffle_of_decoded", upper, stage.at, evidence, remedy)


def _held(now: int | None, buffer: ShuffleBuffer) -> str:
    if now is None:
        return "before the maps, elements are smaller"
    sizes = (each * buffer.element_count / 1e6 for each in (now, buffer.bytes_per_element))
    return "it takes {:,.1f} MB; before the maps, it would take {:,.1f} MB".format(*sizes)
