"""More prepared ahead than anybody takes: ``autotune_memory``.

A prefetch holds so many batches, a parallel map so many results as it has calls. Where each pass is
left before the data ends, all of them are thrown away, and were made on cores that the training
could have used.
"""

from __future__ import annotations

from collections.abc import Iterator

from uncork.core.base.machine import Machine
from uncork.core.costmodel.attribution import attribute_costs, discarded_cpu_s
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.rules.base.findings import costs_bound, input_finding
from uncork.rules.base.thresholds import format_ms, stage_label


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding: the stage whose leavings cost most."""
    costs = attribute_costs(diagnosis, machine.cpus)
    stage = max(diagnosis.stages, key=lambda s: discarded_cpu_s(diagnosis, s), default=None)
    if stage is None or stage.prefetched_elements is None:
        return
    wasted_s = discarded_cpu_s(diagnosis, stage)
    upper = costs_bound(diagnosis, costs, costs.without_unattributed_cpu(wasted_s))
    steps = diagnosis.workload.steps_per_epoch or 0
    evidence = (
        f"{stage_label(stage)} prefetches up to {stage.prefetched_elements:,} "
        f"elements{_held(stage.bytes_per_element, stage.prefetched_elements)}, and each pass ends "
        f"after {steps:,} steps: the elements that are ready by then are discarded, "
        f"{format_ms(wasted_s)} of CPU a step"
    )
    remedy = "num_parallel_calls=tf.data.AUTOTUNE, prefetch(tf.data.AUTOTUNE)"
    yield from input_finding(diagnosis, "autotune_memory", upper, stage.at, evidence, remedy)


def _held(size: int | None, elements: int) -> str:
    return f" ({size * elements / 1e9:.2g} GB)" if size else ""
