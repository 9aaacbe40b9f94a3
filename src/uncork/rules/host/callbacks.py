"""Callbacks that take long after batches or epochs: ``callbacks``; ``retracing`` if they trace."""

from __future__ import annotations

import math
from collections.abc import Iterator

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.core.evidence.callbacks import CallbackCost
from uncork.rules.base.thresholds import MIN_FINDING_SPEEDUP, format_ms, speedup_bound


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """One finding for each callback that is worth naming; a step is measured without them.

    What acts once an epoch instead is not free either.
    """
    del machine
    epoch = diagnosis.workload.steps_per_epoch or math.inf
    steps_s = diagnosis.step_s + sum(cost.batch_s for cost in diagnosis.callbacks)
    for cost in diagnosis.callbacks:
        upper = speedup_bound(steps_s, steps_s - max(0.0, cost.batch_s - cost.action_s / epoch))
        if upper >= MIN_FINDING_SPEEDUP:
            yield _finding(diagnosis, cost, cost.batch_s / steps_s, upper)
    yield from _of_epochs(diagnosis, epoch * steps_s)


def _of_epochs(diagnosis: WorkloadDiagnosis, steps_s: float) -> Iterator[Finding]:
    """Beside an epoch's steps and its validation."""
    found = diagnosis.validation
    beside_s = found.validation_s / found.every_epochs if found else 0.0
    epoch_s = steps_s + beside_s + sum(cost.epoch_s for cost in diagnosis.callbacks)
    if not math.isfinite(epoch_s):
        return
    for cost in diagnosis.callbacks:
        upper = speedup_bound(epoch_s, epoch_s - cost.epoch_s)
        if upper >= MIN_FINDING_SPEEDUP:
            yield Finding(
                cause="callbacks",
                share=cost.epoch_s / epoch_s,
                upper_bound=upper,
                at=cost.epoch_hook_at or diagnosis.workload.at,
                evidence=(
                    f"{cost.name} takes "
                    f"{'more than ' * cost.is_lower_bound}{_seconds(cost.epoch_s)} an epoch; the "
                    f"steps of an epoch take {_seconds(steps_s)}"
                ),
                remedy="run it in every tenth epoch, or at the end; on fewer samples, or on larger "
                "batches",
                share_of="an epoch",
            )


def _finding(
    diagnosis: WorkloadDiagnosis, cost: CallbackCost, share: float, upper: float
) -> Finding:
    traces = 2 * cost.tracing_s >= cost.batch_s
    tracing = f", {format_ms(cost.tracing_s)} of it while TensorFlow traces a function again"
    return Finding(
        cause="retracing" if traces else "callbacks",
        share=share,
        upper_bound=upper,
        at=cost.at or diagnosis.workload.at,
        evidence=(
            f"{cost.name} takes {format_ms(cost.batch_s)} a batch{tracing if traces else ''}; a "
            f"step takes {format_ms(diagnosis.step_s)}"
        ),
        remedy=(
            "pass tensors instead of Python numbers to the functions that it calls"
            if traces
            else "run it once an epoch, or every few hundred batches"
        ),
    )


def _seconds(seconds: float) -> str:
    """Two digits, and more of long times."""
    return f"{seconds:.0f} s" if seconds >= 100 else f"{seconds:.2g} s"
