"""Updates of very many small weights, each by kernels of its own: ``optimizer_kernels``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.rules.base.findings import step_finding
from uncork.rules.base.thresholds import format_ms, is_surely_faster

# Of the time of kernels that take longer to be started than to compute, what one update of all of
# them saves: weights are still laid end to end and back.
_SAVED: Final = 0.8


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding: what one update of all small weights saves, measured or told by kernels.

    Kernels of large ones compute; those of a large table have a cause of their own.
    """
    del machine
    work, step_s = diagnosis.workload, diagnosis.breakdown.get("step", 0.0) * diagnosis.step_s
    parts = [p for p in diagnosis.kernels if p.phase == "optimizer" and not p.table_rows]
    share, calls = (
        sum(p.short_kernel_share for p in parts),
        sum(p.short_calls_per_step for p in parts),
    )
    at_once, tried = diagnosis.flat_updates_speedup, ""
    upper = diagnosis.speedup_without_kernels(_SAVED * share)
    if at_once is not None:
        upper = (
            diagnosis.speedup_with_faster_resident_step(at_once.ratio)
            if is_surely_faster(at_once)
            else 1.0
        )
        tried = f"; with one vectorized update the step ran {at_once.ratio:.2f}x as fast"
    if not calls:
        return
    at = work.step_setup_at or next((p.at for p in parts if p.at), None)
    evidence = (
        f"{format_ms(share * step_s)} of a {format_ms(diagnosis.step_s)} step go to {calls:.0f} "
        f"kernels of the optimizer, {share * step_s / calls * 1e6:.1f} µs each: to start such a "
        f"kernel takes longer than to compute it{tried}"
    )
    remedy = (
        "update all small weights as one vector ('uncork tune' tries it), or stack the weights of "
        "equal layers"
        if work.kind == "fit"
        else "stack the weights of equal layers, or update all small ones as one vector"
    )
    yield from step_finding(diagnosis, "optimizer_kernels", upper, at, evidence, remedy)
