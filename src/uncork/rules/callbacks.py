"""Callbacks that take long after every batch: ``callbacks``, or ``retracing`` where they trace."""

from __future__ import annotations

import math
from collections.abc import Iterator

from uncork.core.diagnosis import Finding, WorkloadDiagnosis
from uncork.core.facts import CallbackCost
from uncork.core.machine import Machine
from uncork.rules.evidence import WORTH, bound, ms


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
