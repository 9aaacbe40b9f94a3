"""Devices that TensorFlow sees, and the training leaves idle: ``idle_devices``."""

from __future__ import annotations

from collections.abc import Iterator

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.rules.base.thresholds import MIN_FINDING_SPEEDUP, format_ms


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding; its bound is a step divided among all of them, nothing else faster.

    Logical devices of one processor share its cores, which are slower while all are busy.
    """
    work, there = diagnosis.workload, machine.logical_device_count
    if work.replicas >= there:
        return
    speed = 1.0 if machine.devices else diagnosis.busy_core_speed_ratio
    upper = diagnosis.speedup_with_faster_step(max(1.0, speed * there / work.replicas))
    if upper < MIN_FINDING_SPEEDUP:
        return
    step_s = diagnosis.breakdown.get("step", 0.0) * diagnosis.step_s
    yield Finding(
        cause="idle_devices",
        severity="environment",
        share=1 - 1 / upper,
        upper_bound=upper,
        at=work.step_setup_at or work.at,
        evidence=(
            f"TensorFlow sees {there} devices and the training runs on {work.replicas}; "
            f"{format_ms(step_s)} of a {format_ms(diagnosis.step_s)} step could be divided among "
            "them"
        ),
        remedy=(
            "create the model in the scope of tf.distribute.MirroredStrategy(), with a batch for "
            "each device; the global batch and the learning rate grow with it"
        ),
    )
