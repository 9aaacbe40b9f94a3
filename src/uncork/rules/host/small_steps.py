"""Steps so small that Python between them counts: ``small_steps``."""

from __future__ import annotations

from collections.abc import Iterator

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.core.documents.workload import Workload
from uncork.rules.base.findings import host_finding
from uncork.rules.base.thresholds import input_share


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding, with the time between two steps as its evidence."""
    del machine
    work = diagnosis.workload
    if work.is_eager_step or work.is_fit_in_loop:
        return
    yield from host_finding(
        diagnosis,
        "small_steps",
        work.step_call_at or work.at,
        "{lost} of a {step} step pass between steps: Python, Keras's bookkeeping, reading logs",
        _remedy(work),
        fetched_share=_fetched(diagnosis),
        explained_share=diagnosis.retracing_share,
    )


def _fetched(diagnosis: WorkloadDiagnosis) -> float:
    """Part of a step of a loop of the user's own in which Python fetches what is ready."""
    work, supply = diagnosis.workload, diagnosis.ceilings.get("supply", 0.0)
    if work.kind != "custom_loop" or work.data_kind != "tf.data" or not supply:
        return 0.0
    # Samples of a step over samples a second that the pipeline makes by itself, over the step.
    making = diagnosis.measurement.samples_per_s / supply
    return max(0.0, input_share(diagnosis) - making)


def _remedy(work: Workload) -> str:
    """Steps in groups, where that leaves the training as it is; a larger batch is another one."""
    if work.kind != "fit":
        return "move the loop over batches into the tf.function, or use a larger batch"
    if work.batch_callbacks:
        return (
            "callbacks that need each batch prevent several steps in one call: do that work once "
            "an epoch"
        )
    if work.data_kind in ("pydataset", "generator") or work.steps_per_epoch is None:
        return "read with tf.data of known length, and compile(..., steps_per_execution=N)"
    divides = f" that divides {work.steps_per_epoch:,}" if work.has_explicit_steps else ""
    return f"compile(..., steps_per_execution=N), with an N{divides or ' of 10 to 100'}"
