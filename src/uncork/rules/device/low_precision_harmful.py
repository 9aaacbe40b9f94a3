"""Kernels in a precision that this device has no fast ones for: ``low_precision_harmful``."""

from __future__ import annotations

from collections.abc import Iterator

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.rules.base.thresholds import (
    MIN_FINDING_SPEEDUP,
    format_ms,
    is_surely_faster,
    step_speedup_interval,
)


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """A finding where float32 was seen to make the step itself cheaper."""
    full = diagnosis.float32_speedup
    if full is None or not is_surely_faster(full):
        return
    upper = diagnosis.speedup_with_faster_step(full.ratio)
    if upper < MIN_FINDING_SPEEDUP:
        return
    share = diagnosis.breakdown.get("step", 0.0)
    policies = [policy for policy in diagnosis.workload.dtype_policies if policy != "float32"]
    low = ", ".join(policies) or "mixed precision"
    device = machine.devices[0] if machine.devices else machine.cpu_model
    yield Finding(
        cause="low_precision_harmful",
        share=min(share, 1 - 1 / upper),
        upper_bound=upper,
        upper_bound_interval=step_speedup_interval(diagnosis, full),
        at=diagnosis.workload.dtype_policy_at or diagnosis.workload.at,
        evidence=(
            f"{format_ms(share * diagnosis.step_s)} of a {format_ms(diagnosis.step_s)} step are "
            f"kernels in {low} "
            f"on {device}; in float32 they ran {full.ratio:.2f}x as fast"
        ),
        remedy=f"without {low}, or only where the device has fast kernels for it",
    )
