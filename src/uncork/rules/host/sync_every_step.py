"""A loop that reads a value of each step before it makes the next batch: ``sync_every_step``."""

from __future__ import annotations

from collections.abc import Iterator

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.rules.base.findings import step_finding
from uncork.rules.base.thresholds import format_ms, speedup_bound


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding: what Python does could pass while the device computes, and does not."""
    del machine
    waiting = diagnosis.host_sync
    if waiting is None:
        return
    python, device = 1 - waiting.share, diagnosis.resident_share
    upper = speedup_bound(1.0, max(python, device))
    evidence = (
        "Python waits for a value that the step computes, and prepares nothing meanwhile: "
        f"{format_ms(waiting.share * diagnosis.step_s)} of a {format_ms(diagnosis.step_s)} step"
    )
    remedy = "keep the tensor, and read it once an epoch, or every few hundred batches"
    yield from step_finding(diagnosis, "sync_every_step", upper, waiting.at, evidence, remedy)
