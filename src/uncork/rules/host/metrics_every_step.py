"""Metrics that take a good part of every training step: ``metrics_every_step``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.rules.base.findings import step_finding
from uncork.rules.base.thresholds import format_ms, is_surely_faster

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
    share = diagnosis.breakdown.get("step", 0.0)
    evidence = (
        f"without the metrics of compile, the step itself, {format_ms(share * diagnosis.step_s)}, "
        f"ran {without.ratio:.2f}x as fast"
    )
    remedy = (
        "remove from compile the metrics that no callback monitors, and compile with them before "
        "evaluate, after the training"
    )
    yield from step_finding(
        diagnosis,
        "metrics_every_step",
        upper,
        work.step_setup_at,
        evidence,
        remedy,
        comparison=without,
    )
