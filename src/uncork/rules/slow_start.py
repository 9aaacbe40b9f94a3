"""Preparations that take a good part of the whole run: ``slow_start``."""

from __future__ import annotations

from collections.abc import Iterator

from uncork.core.diagnosis import Finding, WorkloadDiagnosis
from uncork.core.machine import Machine
from uncork.rules.evidence import WORTH, bound


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding, where it is known how long the training will take."""
    del machine
    work, lines = diagnosis.workload, diagnosis.start
    if not work.steps_per_epoch or not lines:
        return
    start_s = sum(line.seconds for line in lines)
    training_s = work.epochs * work.steps_per_epoch * diagnosis.step_s
    upper = bound(start_s + training_s, training_s)
    if upper < WORTH:
        return
    yield Finding(
        cause="slow_start",
        share=1 - 1 / upper,
        upper_bound=upper,
        at=lines[0].at,
        evidence=(
            f"{start_s:.1f} s pass in the script before its training begins, imports left out, "
            f"{lines[0].seconds:.1f} s of them in one line; the training takes {training_s:.1f} s"
        ),
        remedy="one call for a whole array instead of Python for each row; or keep what it makes",
    )
