"""Steps so small that Python between them counts: ``small_steps``."""

from __future__ import annotations

from collections.abc import Iterator

from uncork.core.diagnosis import Finding, WorkloadDiagnosis
from uncork.core.machine import Machine
from uncork.rules.evidence import WORTH, bound, interval, ms


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding, with the time between two steps as its evidence."""
    del machine
    share = diagnosis.breakdown.get("host", 0.0)
    upper = bound(1.0, 1.0 - share)
    work = diagnosis.workload
    if upper < WORTH or work.eager_step or work.called_in_loop:
        return
    yield Finding(
        cause="small_steps",
        share=share,
        upper_bound=upper,
        interval=interval(diagnosis, "host", upper),
        at=diagnosis.workload.at,
        evidence=(
            f"{ms(share * diagnosis.step_s)} of a {ms(diagnosis.step_s)} step pass between the "
            "steps: Python, Keras's bookkeeping, reading the logs"
        ),
        remedy="compile(..., steps_per_execution=N), or a larger batch",
    )
