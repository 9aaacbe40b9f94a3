"""Updates of very many small weights, each by kernels of its own: ``optimizer_kernels``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from uncork.core.diagnosis import Finding, WorkloadDiagnosis
from uncork.core.machine import Machine
from uncork.rules.evidence import WORTH, ms

# Of the time of kernels that take longer to be started than to compute, what one update of all of
# them saves: weights are still laid end to end and back.
_SAVED: Final = 0.8


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding, with most of what updates of small weights take.

    Kernels of large ones compute; those of a large table have a cause of their own.
    """
    del machine
    work, step_s = diagnosis.workload, diagnosis.breakdown.get("step", 0.0) * diagnosis.step_s
    parts = [p for p in diagnosis.kernels if p.phase == "optimizer" and not p.rows]
    share, calls = sum(p.brief for p in parts), sum(p.brief_calls for p in parts)
    upper = diagnosis.without_kernels(_SAVED * share)
    if upper < WORTH:
        return
    at = next((p.at for p in parts if p.at), None)
    yield Finding(
        cause="optimizer_kernels",
        share=1 - 1 / upper,
        upper_bound=upper,
        at=work.step_at or at or work.at,
        evidence=(
            f"{ms(share * step_s)} of a {ms(diagnosis.step_s)} step pass in {calls:.0f} kernels of "
            f"the optimizer, {share * step_s / calls * 1e6:.1f} µs each: to start one takes longer "
            "than to compute it"
        ),
        remedy=(
            "update all small weights as one vector ('uncork tune' tries it), or stack those of "
            "equal layers"
            if work.kind == "fit"
            else "stack the weights of equal layers, or update all small ones as one vector"
        ),
    )
