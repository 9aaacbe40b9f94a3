"""Input and training that take turns: ``no_prefetch``.

TensorFlow ends a pipeline in a prefetch by itself, unless its options turn such rewrites off. Then
a batch is begun only when the step before it is done, and both times add up.
"""

from __future__ import annotations

from collections.abc import Iterator

from uncork.core.base.machine import Machine
from uncork.core.costmodel.attribution import overlapped_step_s
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.rules.base.findings import input_finding, waits_for_input
from uncork.rules.base.thresholds import format_ms, speedup_bound, stage_label


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding; its bound is the longer of the two times instead of their sum."""
    stages = [s for s in diagnosis.stages if s.kind != "options"]
    if (
        diagnosis.workload.pipeline_digest == ""
        or diagnosis.workload.has_default_rewrites
        or not stages
    ):
        return
    if stages[-1].kind == "prefetch" or not waits_for_input(diagnosis):
        return
    overlapped = overlapped_step_s(diagnosis, machine.cpus)
    upper = speedup_bound(diagnosis.step_s, overlapped)
    evidence = (
        f"the pipeline ends in {stage_label(stages[-1])} and its options disable TensorFlow's own "
        f"prefetch: a step of {format_ms(diagnosis.step_s)} waits for its batch; overlapped, they "
        f"would take {format_ms(overlapped)}"
    )
    remedy = "end the pipeline with .prefetch(tf.data.AUTOTUNE)"
    yield from input_finding(diagnosis, "no_prefetch", upper, stages[-1].at, evidence, remedy)
