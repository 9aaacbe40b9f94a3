"""``fit``, or ``predict``, called for a few steps at a time: ``fit_in_loop``."""

from __future__ import annotations

from collections.abc import Iterator

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.rules.base.findings import host_finding
from uncork.rules.base.thresholds import MIN_FINDING_SPEEDUP, format_ms, speedup_bound


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding; its bound is what the same steps take without starting and ending."""
    del machine
    work = diagnosis.workload
    if not work.is_fit_in_loop:
        yield from _answering(diagnosis)
        return
    evidence = (
        "the script calls fit repeatedly, for a few steps each: start and end of fit take {lost} "
        "of {step} a step"
    )
    remedy = "call fit once on a dataset of all batches, or use train_on_batch in your own loop"
    yield from host_finding(diagnosis, "fit_in_loop", work.at, evidence, remedy)


def _answering(diagnosis: WorkloadDiagnosis) -> Iterator[Finding]:
    """Of a loop of the user's own, where its lines do not tell already that it evaluates."""
    found = diagnosis.evaluation_calls
    if found is None or any(line.work == "evaluation" for line in diagnosis.loop_lines):
        return
    share = found.share * found.setup_share
    upper = speedup_bound(1.0, 1.0 - share)
    if upper < MIN_FINDING_SPEEDUP:
        return
    yield Finding(
        cause="fit_in_loop",
        share=share,
        upper_bound=upper,
        at=found.at or diagnosis.workload.at,
        evidence=(
            f"the loop calls Keras's predict or evaluate {found.calls_per_step:.2g} times a step, "
            f"and each call creates a pipeline: {format_ms(share * diagnosis.step_s)} of a "
            f"{format_ms(diagnosis.step_s)} step"
        ),
        remedy="use predict_on_batch and test_on_batch, or your own tf.function",
    )
