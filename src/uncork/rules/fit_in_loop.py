"""``fit`` called for a few steps at a time: ``fit_in_loop``."""

from __future__ import annotations

from collections.abc import Iterator

from uncork.core.diagnosis import Finding, WorkloadDiagnosis
from uncork.core.machine import Machine
from uncork.rules.evidence import lost_to_host


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding; its bound is what the same steps take without starting and ending."""
    del machine
    work = diagnosis.workload
    if not work.called_in_loop:
        return
    yield from lost_to_host(
        diagnosis,
        "fit_in_loop",
        work.at,
        evidence=(
            "fit is called again and again for a few steps: {lost} of {step} a step are its "
            "start and end"
        ),
        remedy="one fit over a dataset of all batches, or train_on_batch in a loop of your own",
    )
