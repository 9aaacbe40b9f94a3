"""Steps so small that Python between them counts: ``small_steps``."""

from __future__ import annotations

from collections.abc import Iterator

from uncork.core.diagnosis import Finding, WorkloadDiagnosis
from uncork.core.machine import Machine
from uncork.rules.evidence import lost_to_host


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding, with the time between two steps as its evidence."""
    del machine
    work = diagnosis.workload
    if work.eager_step or work.called_in_loop:
        return
    yield from lost_to_host(
        diagnosis,
        "small_steps",
        work.at,
        evidence=(
            "{lost} of a {step} step pass between the steps: Python, Keras's bookkeeping, reading "
            "the logs"
        ),
        remedy="compile(..., steps_per_execution=N), or a larger batch",
    )
