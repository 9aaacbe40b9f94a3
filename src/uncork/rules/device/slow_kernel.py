"""Kernels that are slow for what they compute, where others do the same: ``slow_kernel``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.core.evidence.kernels import KernelGroup
from uncork.rules.base.findings import step_finding
from uncork.rules.base.thresholds import format_ms

# Kind of kernel, what is wrong with it on a CPU, and what to do.
_WALKS: Final = "runs along its axis on one core, one number at a time"
_SUMS: Final = (
    _WALKS,
    "multiply by a triangular matrix of ones, if the axis is short",
)
_SCANS: Final = (
    _WALKS,
    "use keras.ops.associative_scan, which computes halves in parallel",
)
_GROUPED: Final = (
    "belongs to a grouped convolution, which Keras compiles separately with XLA on a CPU",
    "split the channels, and convolve each group separately",
)


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding for each kind of kernel that is known to be slow on this machine."""
    if machine.devices:
        return
    known = ((("Cumsum",), _SUMS), (("Cumprod", "CumulativeLogsumexp"), _SCANS), ((), _GROUPED))
    for kinds, (why, remedy) in known:
        parts = [p for p in diagnosis.kernels if _is_one(p, kinds)]
        if not parts:
            continue
        upper = diagnosis.speedup_without_kernels(sum(p.share for p in parts))
        at = next((p.at for p in parts if p.phase == "forward" and p.at), parts[0].at)
        evidence = (
            f"{format_ms(diagnosis.step_s * (1 - 1 / upper))} of a {format_ms(diagnosis.step_s)} "
            f"step: {parts[0].main_kernel} of {parts[0].layer or 'the step'} {why}"
        )
        yield from step_finding(diagnosis, "slow_kernel", upper, at, evidence, remedy)


def _is_one(part: KernelGroup, kinds: tuple[str, ...]) -> bool:
    if kinds:
        return part.main_kernel in kinds
    return part.is_compiled_separately and "Conv" in part.layer
