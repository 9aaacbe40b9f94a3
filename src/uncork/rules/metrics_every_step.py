"""Metrics that take a good part of every training step: ``metrics_every_step``."""

from __future__ import annotations

from collections.abc import Iterator

from uncork.core.diagnosis import Finding, WorkloadDiagnosis
from uncork.core.machine import Machine
from uncork.rules.evidence import WORTH, ms, step_interval, surely_faster


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding, where the step was seen to run faster without them."""
    del machine
    without, work = diagnosis.without_metrics, diagnosis.workload
    if without is None or not surely_faster(without):
        return
    upper = diagnosis.with_step_faster(without.ratio)
    if upper < WORTH:
        return
    share = diagnosis.breakdown.get("step", 0.0)
    yield Finding(
        cause="metrics_every_step",
        share=min(share, 1 - 1 / upper),
        upper_bound=upper,
        interval=step_interval(diagnosis, without),
        at=work.step_at or work.at,
        evidence=(
            f"without the metrics of compile the step itself, {ms(share * diagnosis.step_s)}, ran "
            f"{without.ratio:.2f}x as fast"
        ),
        remedy="compile without them, and compute them where they are looked at, in evaluate",
    )
