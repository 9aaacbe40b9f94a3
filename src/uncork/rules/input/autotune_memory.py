"""More prepared ahead than anybody takes: ``autotune_memory``.

A prefetch holds so many batches, a parallel map so many results as it has calls. Where each pass is
left before the data ends, all of them are thrown away, and were made on cores that the training
could have used.
"""

from __future__ import annotations

from collections.abc import Iterator

from uncork.core.base.machine import Machine
from uncork.core.costmodel.attribution import attribute_costs, discarded_cpu_s
from uncork.core.costmodel.step_cost import predict_gain
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.rules.base.thresholds import (
    MIN_FINDING_SPEEDUP,
    format_ms,
    input_share,
    speedup_bound,
    speedup_interval,
    stage_label,
)


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding: the stage whose leavings cost most."""
    costs = attribute_costs(diagnosis, machine.cpus)
    stage = max(diagnosis.stages, key=lambda s: discarded_cpu_s(diagnosis, s), default=None)
    if stage is None or stage.prefetched_elements is None:
        return
    wasted_s = discarded_cpu_s(diagnosis, stage)
    less = costs.without_unattributed_cpu(wasted_s)
    upper = speedup_bound(diagnosis.step_s, less.step_s())
    if min(predict_gain(costs, less), upper) < MIN_FINDING_SPEEDUP:
        return
    steps = diagnosis.workload.steps_per_epoch or 0
    yield Finding(
        cause="autotune_memory",
        share=min(input_share(diagnosis), 1 - 1 / upper),
        upper_bound=upper,
        upper_bound_interval=speedup_interval(diagnosis, "input", upper),
        at=stage.at,
        evidence=(
            f"{stage_label(stage)} prepares up to {stage.prefetched_elements:,} elements ahead"
            f"{_held(stage.bytes_per_element, stage.prefetched_elements)}, and each pass is left "
            f"after {steps:,} "
            f"steps: what is ready by then was made in vain, {format_ms(wasted_s)} of CPU a step"
        ),
        remedy="num_parallel_calls=tf.data.AUTOTUNE, prefetch(tf.data.AUTOTUNE)",
    )


def _held(size: int | None, elements: int) -> str:
    return f" ({size * elements / 1e9:.2g} GB)" if size else ""
