"""An augmentation that a cache freezes: ``random_under_cache``, a correctness issue."""

from __future__ import annotations

from collections.abc import Iterator

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.rules.base.findings import correctness_finding


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """One finding for each cache of random numbers; reported, never repaired."""
    del machine
    for stage in diagnosis.stages:
        if stage.has_frozen_randomness:
            evidence = (
                "a stage upstream of this cache generates random numbers: every later epoch "
                "repeats those of the first epoch"
            )
            remedy = (
                "call cache() before the random part, if every epoch should see other random "
                "numbers"
            )
            yield correctness_finding("random_under_cache", stage.at, evidence, remedy)
