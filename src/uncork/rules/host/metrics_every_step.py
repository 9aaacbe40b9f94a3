"""Metrics that take a good part of every training step: ``metrics_every_step``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.rules.base.thresholds import (
    MIN_FINDING_SPEEDUP,
    format_ms,
    is_surely_faster,
    step_speedup_interval,
)

# Of what kernels of metrics take, so many times may be gained without them: what else they need,
# and the copies of what they look at, is told as other kernels.
_EXPLAINED: Final = 2.0


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding, where the step was seen to run faster without them.

    Of the same function traced twice one may be faster by a tenth, for good, by where its memory
    happens to lie. So where the kernels of the step are known, theirs must explain half of it.
    """
    del machine
    without, work = diagnosis.speedup_without_metrics, diagnosis.workload
    if without is None or not is_surely_faster(without):
        return
    upper = diagnosis.speedup_with_faster_step(without.ratio)
    if diagnosis.kernels:
        seen = sum(part.share for part in diagnosis.kernels if part.phase == "metrics")
        upper = min(upper, diagnosis.speedup_without_kernels(min(1.0, _EXPLAINED * seen)))
    if upper < MIN_FINDING_SPEEDUP:
        return
    share = diagnosis.breakdown.get("step", 0.0)
    yield Finding(
        cause="metrics_every_step",
        share=min(share, 1 - 1 / upper),
        upper_bound=upper,
        upper_bound_interval=step_speedup_interval(diagnosis, without),
        at=work.step_setup_at or work.at,
        evidence=(
            "without the metrics of compile the step itself, "
            f"{format_ms(share * diagnosis.step_s)}, ran "
            f"{without.ratio:.2f}x as fast"
        ),
        remedy=(
            "leave out of compile what no callback monitors, and compile with it before evaluate, "
            "when the training is over"
        ),
    )
