"""An augmentation that a cache froze: ``random_under_cache``. A trap, not a brake."""

from __future__ import annotations

from collections.abc import Iterator

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """One finding for each cache that keeps random draws; it is reported, never repaired."""
    del machine
    for stage in diagnosis.stages:
        if stage.has_frozen_randomness:
            yield Finding(
                cause="random_under_cache",
                severity="correctness",
                share=0.0,
                upper_bound=1.0,
                at=stage.at,
                evidence=(
                    "something below this cache draws random numbers: they are drawn in the first "
                    "epoch and come back the same in every later one"
                ),
                remedy="cache() before the random part, if every epoch shall see other draws",
            )
