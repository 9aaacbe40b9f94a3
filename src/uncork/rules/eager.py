"""A training step that runs op by op from Python: ``eager_step``."""

from __future__ import annotations

from collections.abc import Iterator

from uncork.core.diagnosis import Finding, WorkloadDiagnosis
from uncork.core.machine import Machine
from uncork.rules.evidence import WORTH, bound, interval, ms

_REMEDIES = {
    "fit": "compile the model without run_eagerly=True",
    "custom_loop": "put @tf.function on the function that holds the GradientTape",
}


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding; its bound is what compiling the step, or its ops alone, would leave."""
    del machine
    share = diagnosis.breakdown.get("host", 0.0)
    upper = bound(1.0, 1.0 - share)
    work = diagnosis.workload
    if upper < WORTH or not work.eager_step or work.called_in_loop:
        return
    yield Finding(
        cause="eager_step",
        share=share,
        upper_bound=upper,
        interval=interval(diagnosis, "host", upper),
        at=diagnosis.workload.step_at or diagnosis.workload.at,
        evidence=(
            f"the step runs eagerly, op by op: {ms(share * diagnosis.step_s)} of "
            f"{ms(diagnosis.step_s)} are lost to Python between TensorFlow's ops and to their "
            "dispatch"
        ),
        remedy=_REMEDIES[diagnosis.workload.kind],
    )
