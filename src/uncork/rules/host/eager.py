"""A training step that runs op by op from Python: ``eager_step``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.core.documents.workload import Workload
from uncork.rules.base.findings import host_finding

# How it is told that the step has no function.
_IN_LOOP: Final = "it stands in the loop itself"
_REMEDIES = {
    "fit": "compile the model without run_eagerly=True",
    "custom_loop": "put @tf.function on the function with the GradientTape",
}


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding; its bound is what compiling the step, or its ops alone, would leave."""
    del machine
    work = diagnosis.workload
    if not work.is_eager_step or work.is_fit_in_loop:
        return
    evidence = (
        "the step runs eagerly: Python between TensorFlow's ops and the dispatch of the ops take "
        "{lost} of {step}"
    )
    at = work.step_setup_at or work.at
    yield from host_finding(diagnosis, "eager_step", at, evidence, _remedy(work))


def _remedy(work: Workload) -> str:
    """With what was seen to stand in its way."""
    remedy = _REMEDIES[work.kind]
    if work.tf_function_refusal.startswith(_IN_LOOP):
        return "move tape, gradients and update into a separate function with @tf.function"
    return (
        f"{remedy}; before that: {work.tf_function_refusal}" if work.tf_function_refusal else remedy
    )
