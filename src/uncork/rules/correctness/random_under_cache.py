"""An augmentation that a cache froze: ``random_under_cache``. A trap, not a brake."""

from __future__ import annotations

from collections.abc import Iterator

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.rules.base.findings import correctness_finding


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """One finding for each cache that keeps random draws; it is reported, never repaired."""
    del machine
    for stage in diagnosis.stages:
        if stage.has_frozen_randomness:
            evidence = (
                "something below this cache draws random numbers: they are drawn in the first "
                "epoch and come back the same in every later one"
            )
            remedy = "cache() before the random part, if every epoch shall see other draws"
            yield correctness_finding("random_under_cache", stage.at, evidence, remedy)
