"""What is held out is trained on an epoch later: ``leaking_split``. A trap, not a brake."""

from __future__ import annotations

from collections.abc import Iterator

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.rules.base.findings import correctness_finding


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """One finding where a shuffle below the split deals anew in each pass; never repaired."""
    del machine
    found = diagnosis.reshuffled_split
    if found is None:
        return
    training, validation = found.split_methods
    evidence = (
        f"{validation} validates on elements that {training} trains on: they part what is put "
        "in another order in each pass"
    )
    remedy = (
        "reshuffle_each_iteration=False below the split (of list_files, shuffle=False), and "
        "shuffle what trains above it"
    )
    yield correctness_finding(
        "leaking_split", found.shuffle_at or diagnosis.workload.at, evidence, remedy
    )
