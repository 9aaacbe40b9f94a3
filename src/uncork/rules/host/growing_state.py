"""A variable that grows with every step of a ``fit``: ``growing_state``."""

from __future__ import annotations

from collections.abc import Iterator

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.rules.base.thresholds import WORTH, bound, ms


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding, with what the steps of the whole training come to."""
    del machine
    grows, work = diagnosis.growth, diagnosis.workload
    if grows is None or grows.added_s <= 0:
        return
    steps = (work.steps_per_epoch or 0) * work.epochs
    mean_s = grows.first_s + grows.added_s * steps / 2
    upper = bound(mean_s, grows.first_s)
    if upper < WORTH:
        return
    yield Finding(
        cause="growing_state",
        share=1 - 1 / upper,
        upper_bound=upper,
        at=grows.at or work.step_at or work.at,
        evidence=(
            f"{grows.name} grows by {grows.bytes_per_step / 1e6:.2g} MB a step, and each step is "
            f"{grows.added_s * 1e6:.2g} µs longer than the one before: the last of {steps:,} would "
            f"take {ms(grows.first_s + grows.added_s * steps)}, the first takes {ms(grows.first_s)}"
        ),
        remedy="keep what is needed in the end only, or write it to rows that are there already",
    )
