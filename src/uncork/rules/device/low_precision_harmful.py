"""Kernels in a precision that this device has no fast ones for: ``low_precision_harmful``."""

from __future__ import annotations

from collections.abc import Iterator

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.rules.base.findings import step_finding
from uncork.rules.base.thresholds import format_ms, is_surely_faster


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """A finding where float32 was seen to make the step itself cheaper."""
    full = diagnosis.float32_speedup
    if full is None or not is_surely_faster(full):
        return
    upper = diagnosis.speedup_with_faster_step(full.ratio)
    share = diagnosis.breakdown.get("step", 0.0)
    policies = [policy for policy in diagnosis.workload.dtype_policies if policy != "float32"]
    low = ", ".join(policies) or "mixed precision"
    device = machine.devices[0] if machine.devices else machine.cpu_model
    evidence = (
        f"{format_ms(share * diagnosis.step_s)} of a {format_ms(diagnosis.step_s)} step go to "
        f"kernels in {low} on {device}; in float32 they ran {full.ratio:.2f}x as fast"
    )
    remedy = f"train without {low}, or use it only on a device with fast kernels for it"
    at = diagnosis.workload.dtype_policy_at
    yield from step_finding(
        diagnosis, "low_precision_harmful", upper, at, evidence, remedy, comparison=full
    )
