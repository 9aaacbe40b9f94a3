"""Devices that TensorFlow sees, and the training leaves idle: ``idle_devices``."""

from __future__ import annotations

from collections.abc import Iterator

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.rules.base.thresholds import WORTH, ms


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding; its bound is a step divided among all of them, nothing else faster.

    Logical devices of one processor share its cores, which are slower while all are busy.
    """
    work, there = diagnosis.workload, machine.logical_devices
    if work.replicas >= there:
        return
    speed = 1.0 if machine.devices else diagnosis.together
    upper = diagnosis.with_step_faster(max(1.0, speed * there / work.replicas))
    if upper < WORTH:
        return
    step_s = diagnosis.breakdown.get("step", 0.0) * diagnosis.step_s
    yield Finding(
        cause="idle_devices",
        severity="environment",
        share=1 - 1 / upper,
        upper_bound=upper,
        at=work.step_at or work.at,
        evidence=(
            f"TensorFlow sees {there} devices and the training runs on {work.replicas}; of a "
            f"{ms(diagnosis.step_s)} step {ms(step_s)} could be divided among them"
        ),
        remedy=(
            "make the model in the scope of tf.distribute.MirroredStrategy(), with a batch for "
            "each device; the global batch and the learning rate grow with it"
        ),
    )
