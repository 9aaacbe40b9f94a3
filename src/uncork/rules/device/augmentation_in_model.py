"""Preprocessing inside the training step: ``augmentation_in_model``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.core.evidence.kernels import KernelGroup
from uncork.rules.base.findings import step_finding
from uncork.rules.base.thresholds import float64_casts, format_ms, speedup_bound

_BY_HAND: Final = "move it into the pipeline: dataset.map(..., num_parallel_calls=tf.data.AUTOTUNE)"
_BESIDE: Final = (
    "'uncork tune' runs the model's first layers in the pipeline (layers_in_input); by hand, use "
    "dataset.map(lambda x, y: (layers(x, training=True), y)) and a model without these layers, the "
    "same with training=False for validation data, and a model with these layers to predict"
)


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding, where the pipeline could do it beside the step.

    What depends on the batch alone may leave the step. All cores together must do it nevertheless:
    kernels that keep them busy already win nothing by moving. What another device does of it is
    left to it: here it would have to be done first, and then sent.
    """
    if diagnosis.transfer is not None:
        return
    narrowing = float64_casts(diagnosis)
    parts = [p for p in diagnosis.kernels if p.batch_only_share and p not in narrowing]
    if not parts:
        return
    # The input works beside it, on the same cores.
    cpu_s = max(diagnosis.consumer_cpu_s or 0.0, diagnosis.measurement.cpu_s_per_step)
    moved_s = (
        diagnosis.step_s
        * diagnosis.breakdown.get("step", 0.0)
        * sum(p.batch_only_share for p in parts)
    )
    upper = speedup_bound(diagnosis.step_s, max(diagnosis.step_s - moved_s, cpu_s / machine.cpus))
    most = max(parts, key=lambda p: p.batch_only_share)
    at = most.batch_only_at or most.at or diagnosis.workload.at
    evidence = (
        f"{format_ms(moved_s)} of a {format_ms(diagnosis.step_s)} step depend only on the batch, "
        f"most of it {_named(most)}; {cpu_s / diagnosis.step_s:.1f} of {machine.cpus:g} cores are "
        "busy"
    )
    remedy = _BESIDE if diagnosis.workload.preprocessing_layers else _BY_HAND
    yield from step_finding(diagnosis, "augmentation_in_model", upper, at, evidence, remedy)


def _named(part: KernelGroup) -> str:
    """What is done to the batch: the kernel is the costliest of its part, and may be another."""
    where = part.layer or "the step"
    whole = part.batch_only_share > 0.5 * part.share
    return (
        f"{part.main_kernel} of {where}"
        if whole
        else (f"other kernels than {part.main_kernel} of {where}")
    )
