"""A training step that runs op by op from Python: ``eager_step``."""

from __future__ import annotations

from collections.abc import Iterator

from uncork.core.diagnosis import Finding, WorkloadDiagnosis
from uncork.core.machine import Machine
from uncork.rules.evidence import WORTH, bound, interval, ms


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding; its bound is the Python time around the ops, measured."""
    del machine
    share = diagnosis.breakdown.get("host", 0.0)
    upper = bound(1.0, 1.0 - share)
    if not diagnosis.workload.eager_step or upper < WORTH:
        return
    yield Finding(
        cause="eager_step",
        share=share,
        upper_bound=upper,
        interval=interval(diagnosis, "host", upper),
        at=diagnosis.workload.step_at or diagnosis.workload.at,
        evidence=(
            f"the step computes its gradients eagerly: {ms(share * diagnosis.step_s)} of "
            f"{ms(diagnosis.step_s)} are Python between TensorFlow's ops"
        ),
        remedy="put @tf.function on the function that holds the GradientTape",
    )
