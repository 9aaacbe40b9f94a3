"""Arrays that are copied into tensors at every step: ``array_copies``."""

from __future__ import annotations

from collections.abc import Iterator

from uncork.core.diagnosis import Finding, WorkloadDiagnosis
from uncork.core.machine import Machine
from uncork.rules.evidence import WORTH, bound, interval, ms


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding: what a step is handed unchanged each time need be copied only once."""
    del machine
    for stage in diagnosis.stages:
        if stage.kind != "convert":
            continue
        copy_s = stage.wall_s_per_element or 0.0
        upper = bound(diagnosis.step_s, diagnosis.step_s - copy_s)
        if upper < WORTH:
            return
        yield Finding(
            cause="array_copies",
            share=1 - 1 / upper,
            upper_bound=upper,
            interval=interval(diagnosis, "input", upper),
            at=stage.at,
            evidence=(
                f"the same {(stage.bytes_per_element or 0) / 1e6:,.0f} MB of NumPy arrays are "
                f"copied into tensors at each call, in {ms(copy_s)} of {ms(diagnosis.step_s)}"
            ),
            remedy="tf.constant(array) once, before the loop",
        )
