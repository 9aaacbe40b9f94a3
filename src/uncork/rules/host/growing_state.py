"""A variable that grows with every step of a ``fit``: ``growing_state``."""

from __future__ import annotations

from collections.abc import Iterator

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.rules.base.findings import step_finding
from uncork.rules.base.thresholds import format_ms, speedup_bound


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding, with what the steps of the whole training come to."""
    del machine
    grows, work = diagnosis.state_growth, diagnosis.workload
    if grows is None or grows.added_s_per_step <= 0:
        return
    steps = (work.steps_per_epoch or 0) * work.epochs
    mean_s = grows.first_step_s + grows.added_s_per_step * steps / 2
    upper = speedup_bound(mean_s, grows.first_step_s)
    evidence = (
        f"{grows.name} grows by {grows.bytes_per_step / 1e6:.2g} MB a step, and each step takes "
        f"{grows.added_s_per_step * 1e6:.2g} µs longer than the one before: the last of {steps:,} "
        f"would take {format_ms(grows.first_step_s + grows.added_s_per_step * steps)}, the first "
        f"takes {format_ms(grows.first_step_s)}"
    )
    remedy = "keep only what you need at the end, or write into preallocated rows"
    yield from step_finding(
        diagnosis, "growing_state", upper, grows.at or work.step_setup_at, evidence, remedy
    )
