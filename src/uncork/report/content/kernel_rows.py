"""The kernels of a step as rows: whose they are, and what they take."""

from __future__ import annotations

from typing import Final

from uncork.core.base.record import Record
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.evidence.kernels import KernelGroup

OTHER_KERNELS_LABEL: Final = "the rest"


class KernelRow(Record, frozen=True, kw_only=True):
    """Kernels of one layer or line in one phase.

    Attributes:
        owner: Layer and phase, ``Conv2D backward``.
        main_kernel: The kind that takes most of it.
        seconds: Of one step.
        share: Of all of its kernels.
        trait: ``in a loop of 60 rounds``, or ``""``.
    """

    owner: str
    main_kernel: str
    at: str | None
    calls_per_step: float
    seconds: float
    share: float
    trait: str


def kernel_rows(diagnosis: WorkloadDiagnosis) -> tuple[KernelRow, ...]:
    """All that is known of them, the longest first."""
    step_s = diagnosis.step_s * diagnosis.breakdown.get("step", 0.0)
    return tuple(
        KernelRow(
            owner=_whose(part),
            main_kernel=part.main_kernel,
            at=part.at,
            calls_per_step=part.calls_per_step,
            seconds=part.share * step_s,
            share=part.share,
            trait=f"a loop of {part.loop_iterations} iterations" if part.loop_iterations else "",
        )
        for part in diagnosis.kernels
    )


def _whose(part: KernelGroup) -> str:
    if part.layer:
        return f"{part.layer} {part.phase}"
    return part.phase if part.at else f"{part.phase}, {OTHER_KERNELS_LABEL}"
