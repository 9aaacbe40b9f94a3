"""Maps that run one element at a time: ``serial_map`` and ``stateful_serial_map``.

So does an ``interleave`` that was given no number of parallel calls, and a list of record files:
they are read in turn.

TensorFlow runs a bare ``map`` in parallel by itself, but only when its function is stateless: one
random op, and the whole function, JPEG decoding included, runs on a single thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from uncork.core.base.machine import Machine
from uncork.core.costmodel.attribution import attribute_costs
from uncork.core.documents.diagnosis import Cause, Finding, WorkloadDiagnosis
from uncork.core.evidence.stage import Stage
from uncork.rules.base.findings import costs_bound, input_finding, waits_for_input
from uncork.rules.base.thresholds import format_ms, input_share, stage_label

_OF_FILES: Final = frozenset({"tfrecord", "text_line", "fixed_length_record"})
_REMEDIES: dict[Cause, str] = {
    "stateful_serial_map": (
        "generate random numbers (or look values up) in a small map of its own, and do the work in "
        "a parallel map"
    ),
    "serial_map": "map(..., num_parallel_calls=tf.data.AUTOTUNE)",
}


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """One finding for each serial map that holds the step up."""
    if not waits_for_input(diagnosis):
        return
    costs = attribute_costs(diagnosis, machine.cpus)
    for stage in diagnosis.stages:
        serial_map = stage.kind == "map" and stage.parallelism == 1 and not stage.has_python_code
        if not serial_map and stage.max_readers is None:
            continue
        parallel = costs.with_parallel_stage(stage.index)
        yield from _finding(diagnosis, stage, costs_bound(diagnosis, costs, parallel))


def _finding(diagnosis: WorkloadDiagnosis, stage: Stage, upper: float) -> Iterator[Finding]:
    draws = stage.is_random and stage.kind == "map"
    cause: Cause = "stateful_serial_map" if draws else "serial_map"
    wall_s = (stage.wall_s_per_element or 0.0) * (stage.elements_per_step or 0.0)
    why = "generates random numbers or has state, so TensorFlow runs it" if draws else "runs"
    evidence = (
        f"{stage_label(stage)} {why} one element at a time: {format_ms(wall_s)} of work for each "
        f"step of {format_ms(diagnosis.step_s)}, on one thread"
    )
    remedy = _side_by_side(stage) if stage.max_readers else _REMEDIES[cause]
    share = min(input_share(diagnosis), wall_s / diagnosis.step_s)
    return input_finding(diagnosis, cause, upper, stage.at, evidence, remedy, share=share)


def _side_by_side(stage: Stage) -> str:
    """With the number of inputs that it has open: a parallel one would choose another by itself."""
    if stage.max_input_elements is None:
        return (
            f"interleave(..., cycle_length={stage.max_readers}, "
            "num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)"
        )
    if stage.kind not in _OF_FILES:
        return "interleave(..., num_parallel_calls=tf.data.AUTOTUNE), which mixes the inputs"
    return (
        "read several files in parallel: num_parallel_reads=N, which mixes their elements; to keep "
        "their order takes memory for whole files"
    )
