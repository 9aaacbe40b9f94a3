"""Callbacks that take long after batches or epochs: ``callbacks``; ``retracing`` if they trace."""

from __future__ import annotations

import math
from collections.abc import Iterator

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.core.evidence.callbacks import CallbackCost
from uncork.rules.base.thresholds import WORTH, bound, ms


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """One finding for each callback that is worth naming; a step is measured without them.

    What acts once an epoch instead is not free either.
    """
    del machine
    epoch = diagnosis.workload.steps_per_epoch or math.inf
    steps_s = diagnosis.step_s + sum(cost.seconds for cost in diagnosis.callbacks)
    for cost in diagnosis.callbacks:
        upper = bound(steps_s, steps_s - max(0.0, cost.seconds - cost.once_s / epoch))
        if upper >= WORTH:
            yield _finding(diagnosis, cost, cost.seconds / steps_s, upper)
    yield from _of_epochs(diagnosis, epoch * steps_s)


def _of_epochs(diagnosis: WorkloadDiagnosis, steps_s: float) -> Iterator[Finding]:
    """Beside an epoch's steps and its validation."""
    found = diagnosis.validation
    beside_s = found.seconds / found.every if found else 0.0
    epoch_s = steps_s + beside_s + sum(cost.epoch_s for cost in diagnosis.callbacks)
    if not math.isfinite(epoch_s):
        return
    for cost in diagnosis.callbacks:
        upper = bound(epoch_s, epoch_s - cost.epoch_s)
        if upper >= WORTH:
            yield Finding(
                cause="callbacks",
                share=cost.epoch_s / epoch_s,
                upper_bound=upper,
                at=cost.epoch_at or diagnosis.workload.at,
                evidence=(
                    f"{cost.name} takes {'more than ' * cost.longer}{_seconds(cost.epoch_s)} an "
                    "epoch, beside "
                    f"{_seconds(steps_s)} of its steps"
                ),
                remedy="let it act in every tenth epoch, or at the end; on fewer samples, or on "
                "larger batches of them",
                of="an epoch",
            )


def _finding(
    diagnosis: WorkloadDiagnosis, cost: CallbackCost, share: float, upper: float
) -> Finding:
    traces = 2 * cost.traced_s >= cost.seconds
    tracing = f", {ms(cost.traced_s)} of them while TensorFlow traces a function anew"
    return Finding(
        cause="retracing" if traces else "callbacks",
        share=share,
        upper_bound=upper,
        at=cost.at or diagnosis.workload.at,
        evidence=(
            f"{cost.name} takes {ms(cost.seconds)} a batch{tracing if traces else ''}, beside a "
            f"step of {ms(diagnosis.step_s)}"
        ),
        remedy=(
            "pass tensors instead of Python numbers to what it calls"
            if traces
            else "let it act once an epoch, or every few hundred batches"
        ),
    )


def _seconds(seconds: float) -> str:
    """Two digits, and more of long times."""
    return f"{seconds:.0f} s" if seconds >= 100 else f"{seconds:.2g} s"
