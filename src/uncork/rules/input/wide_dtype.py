"""Numbers of eight bytes where four would do: ``wide_dtype``.

NumPy divides integers into float64, and every op behind it keeps that width until something narrows
the result for the model, which computes in float32 at most.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from uncork.core.base.machine import Machine
from uncork.core.costmodel.attribution import attribute_costs
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.rules.base.findings import costs_bound, waits_for_input
from uncork.rules.base.thresholds import (
    MIN_FINDING_SPEEDUP,
    float64_casts,
    format_ms,
    input_share,
    speedup_interval,
    stage_label,
)

# Of a stage's CPU time.
_TRIFLE: Final = 0.05


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """One finding for each map or loader that was seen to cost much less in single precision."""
    if not waits_for_input(diagnosis):
        return
    costs = attribute_costs(diagnosis, machine.cpus)
    for stage in diagnosis.stages:
        narrow = costs.with_float32_stage(stage.index)
        spared_s = costs.cpu_s() - narrow.cpu_s()
        if spared_s <= _TRIFLE * (stage.cpu_s_per_step or 0.0):
            continue
        cast_s = _cast_s(diagnosis) if stage.has_python_code else 0.0
        narrow = narrow.with_faster_consumer(cast_s, cast_s)
        upper = costs_bound(diagnosis, costs, narrow)
        if upper < MIN_FINDING_SPEEDUP:
            continue
        verb = "reads and returns" if stage.has_python_code else "computes in"
        yield Finding(
            cause="wide_dtype",
            share=min(input_share(diagnosis), 1 - 1 / upper),
            upper_bound=upper,
            upper_bound_interval=None if cast_s else speedup_interval(diagnosis, "input", upper),
            at=stage.float64_at or stage.at,
            evidence=(
                f"{stage_label(stage)} {verb} float64: {format_ms(stage.cpu_s_per_step)} of CPU a "
                f"step; in float32, it took {format_ms(spared_s)} less"
            ),
            remedy=(
                'use astype("float32") at the source of the numbers, or tf.cast first in the map'
            ),
        )


def _cast_s(diagnosis: WorkloadDiagnosis) -> float:
    """What the step takes to narrow the batch that a loader hands over."""
    in_step_s = diagnosis.step_s * diagnosis.breakdown.get("step", 0.0)
    return in_step_s * sum(part.batch_only_share for part in float64_casts(diagnosis))
