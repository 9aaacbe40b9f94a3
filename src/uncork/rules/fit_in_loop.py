"""``fit`` called for a step or two at a time: ``fit_in_loop``."""

from __future__ import annotations

from collections.abc import Iterator

from uncork.core.diagnosis import Finding, WorkloadDiagnosis
from uncork.core.machine import Machine
from uncork.rules.evidence import WORTH, bound, interval, ms


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding; its bound is what the same steps take without starting and ending."""
    del machine
    share = diagnosis.breakdown.get("host", 0.0)
    upper = bound(1.0, 1.0 - share)
    if not diagnosis.workload.called_in_loop or upper < WORTH:
        return
    yield Finding(
        cause="fit_in_loop",
        share=share,
        upper_bound=upper,
        interval=interval(diagnosis, "host", upper),
        at=diagnosis.workload.at,
        evidence=(
            "fit is called again and again for a step or two: "
            f"{ms(share * diagnosis.step_s)} of {ms(diagnosis.step_s)} a step are its start and end"
        ),
        remedy="one fit over a dataset of all batches, or train_on_batch in a loop of your own",
    )
