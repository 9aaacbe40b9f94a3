"""Held-out elements are trained on in a later epoch: ``leaking_split``, a correctness issue."""

from __future__ import annotations

from collections.abc import Iterator

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.rules.base.findings import correctness_finding


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """One finding if a shuffle before the split differs in each pass; reported, never repaired."""
    del machine
    split = diagnosis.reshuffled_split
    if split is None:
        return
    training, validation = split.split_methods
    evidence = (
        f"{validation} validates on elements that {training} trains on: they split a dataset that "
        "each pass shuffles again"
    )
    remedy = (
        "use reshuffle_each_iteration=False before the split (for list_files, shuffle=False), and "
        "shuffle the training part after it"
    )
    yield correctness_finding(
        "leaking_split", split.shuffle_at or diagnosis.workload.at, evidence, remedy
    )
