"""What is held out is trained on an epoch later: ``leaking_split``. A trap, not a brake."""

from __future__ import annotations

from collections.abc import Iterator

from uncork.core.diagnosis import Finding, WorkloadDiagnosis
from uncork.core.machine import Machine


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """One finding where a shuffle below the split deals anew in each pass; never repaired."""
    del machine
    found = diagnosis.parted_anew
    if found is None:
        return
    training, validation = found.parts
    yield Finding(
        cause="leaking_split",
        severity="correctness",
        share=0.0,
        upper_bound=1.0,
        at=found.shuffle_at or diagnosis.workload.at,
        evidence=(
            f"{training} trains and {validation} validates on what this shuffle puts in another "
            "order in each pass: what is held out in one epoch is trained on in the next"
        ),
        remedy=(
            "reshuffle_each_iteration=False here, and another shuffle of the training part above it"
        ),
    )
