"""Defects of Keras itself: ``keras_defect``, a correctness issue that seldom costs time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis

# Of the time of backward kernels: half of them, and forward ones that take half as long.
_SECOND_PASS: Final = 0.5 + 0.25


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """One finding for each defect, named in its evidence; reported, never repaired."""
    del machine
    for defect in diagnosis.keras_defects:
        backward = sum(part.share for part in diagnosis.kernels if part.phase == "backward")
        saved = _SECOND_PASS * backward if defect.has_double_backward else 0.0
        upper = diagnosis.speedup_without_kernels(saved)
        yield Finding(
            cause="keras_defect",
            severity="correctness",
            share=1 - 1 / upper,
            upper_bound=upper,
            at=defect.at or diagnosis.workload.step_setup_at or diagnosis.workload.at,
            evidence=f"{defect.name}: {defect.evidence}",
            remedy=defect.remedy,
        )
