"""A loop that reads a value of each step before it makes the next batch: ``sync_every_step``."""

from __future__ import annotations

from collections.abc import Iterator

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.rules.base.thresholds import MIN_FINDING_SPEEDUP, format_ms, speedup_bound


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding: what Python does could pass while the device computes, and does not."""
    del machine
    waiting = diagnosis.host_sync
    if waiting is None:
        return
    python, device = 1 - waiting.share, diagnosis.resident_share
    upper = speedup_bound(1.0, max(python, device))
    if upper < MIN_FINDING_SPEEDUP:
        return
    yield Finding(
        cause="sync_every_step",
        share=1 - 1 / upper,
        upper_bound=upper,
        at=waiting.at or diagnosis.workload.at,
        evidence=(
            f"{format_ms(waiting.share * diagnosis.step_s)} of a {format_ms(diagnosis.step_s)} "
            "step Python waits "
            "for a value that the step computes, and prepares nothing meanwhile"
        ),
        remedy="keep the tensor, and read it once an epoch, or every few hundred batches",
    )
