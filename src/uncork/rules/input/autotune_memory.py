"""More prepared ahead than anybody takes: ``autotune_memory``.

A prefetch holds so many batches, a parallel map so many results as it has calls. Where each pass is
left before the data ends, all of them are thrown away, and were made on cores that the training
could have used.
"""

from __future__ import annotations

from collections.abc import Iterator

from uncork.core.base.machine import Machine
from uncork.core.costmodel.attribution import costs_of, thrown_away_s
from uncork.core.costmodel.step_cost import gain
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.rules.base.thresholds import WORTH, bound, input_share, interval, ms, place


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding: the stage whose leavings cost most."""
    costs = costs_of(diagnosis, machine.cpus)
    stage = max(diagnosis.stages, key=lambda s: thrown_away_s(diagnosis, s), default=None)
    if stage is None or stage.ahead is None:
        return
    wasted_s = thrown_away_s(diagnosis, stage)
    less = costs.sparing(wasted_s)
    upper = bound(diagnosis.step_s, less.step_s())
    if min(gain(costs, less), upper) < WORTH:
        return
    steps = diagnosis.workload.steps_per_epoch or 0
    yield Finding(
        cause="autotune_memory",
        share=min(input_share(diagnosis), 1 - 1 / upper),
        upper_bound=upper,
        interval=interval(diagnosis, "input", upper),
        at=stage.at,
        evidence=(
            f"{place(stage)} prepares up to {stage.ahead:,} elements ahead"
            f"{_held(stage.bytes_per_element, stage.ahead)}, and each pass is left after {steps:,} "
            f"steps: what is ready by then was made in vain, {ms(wasted_s)} of CPU a step"
        ),
        remedy="num_parallel_calls=tf.data.AUTOTUNE, prefetch(tf.data.AUTOTUNE)",
    )


def _held(size: int | None, elements: int) -> str:
    return f" ({size * elements / 1e9:.2g} GB)" if size else ""
