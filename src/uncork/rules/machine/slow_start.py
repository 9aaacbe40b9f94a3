"""Preparations that take a good part of the whole run: ``slow_start``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from uncork.core.base.machine import Machine
from uncork.core.costmodel.run_breakdown import break_down_run
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.core.evidence.loop import StartupLine, UnrolledLoop
from uncork.rules.base.thresholds import MIN_FINDING_SPEEDUP, speedup_bound

# Steps of a loop that the graph itself runs are longer than of one that is written out.
_LOOPING: Final = 2.0
# Seconds. Nobody mends a second of a training, however short that is.
_NOTICED: Final = 1.0
_IN_PYTHON: Final = (
    "use one call for a whole array instead of Python for each row; or save its result"
)
_IN_FRAMEWORK: Final = (
    "TensorFlow or Keras takes this time: save the result of the call in a file (a vocabulary, "
    "arrays)"
)


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding, where it is known how long the training will take."""
    del machine
    work, loop = diagnosis.workload, diagnosis.unrolled_loop
    lines = [line for line in diagnosis.startup_lines if line.kind == "line"]
    if not work.steps_per_epoch:
        return
    before_s = sum(line.seconds for line in lines)
    steps_s = work.epochs * work.steps_per_epoch * diagnosis.step_s
    whole_s = break_down_run(diagnosis).seconds
    training_s = whole_s - before_s
    rest_s = training_s - steps_s
    if loop and (not lines or loop.tracing_s > lines[0].seconds):
        upper = speedup_bound(training_s, rest_s - loop.tracing_s + _LOOPING * steps_s)
        at, evidence, remedy = _of_loop(loop)
    elif lines:
        upper = speedup_bound(whole_s, training_s)
        at, evidence, remedy = _of_lines(lines, before_s)
    else:
        return
    if upper < MIN_FINDING_SPEEDUP or (1 - 1 / upper) * whole_s < _NOTICED:
        return
    yield Finding(
        cause="slow_start",
        share=1 - 1 / upper,
        upper_bound=upper,
        at=at,
        evidence=f"{evidence}; the training takes {training_s:.1f} s",
        remedy=remedy,
        share_of="the whole run",
    )


def _of_lines(lines: Sequence[StartupLine], before_s: float) -> tuple[str, str, str]:
    return (
        lines[0].at,
        f"{before_s:.1f} s pass in the script before its training starts, imports not counted, "
        f"{lines[0].seconds:.1f} s of them in one line",
        _IN_FRAMEWORK if lines[0].is_in_framework else _IN_PYTHON,
    )


def _of_loop(loop: UnrolledLoop) -> tuple[str, str, str]:
    return (
        loop.at,
        f"to trace and run the first step takes {loop.first_step_s:.1f} s: this loop is unrolled "
        f"in it, {loop.op_count:,} ops, {loop.op_share:.0%} of the forward pass",
        "use keras.layers.RNN without unroll=True, tf.scan or tf.while_loop, which are traced only "
        "once",
    )
