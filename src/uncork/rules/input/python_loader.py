"""Batches made by Python code while the step waits: ``python_loader`` and ``py_function``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from uncork.core.base.machine import Machine
from uncork.core.costmodel.attribution import attribute_costs
from uncork.core.costmodel.step_cost import predict_gain
from uncork.core.documents.diagnosis import Cause, Finding, WorkloadDiagnosis
from uncork.core.evidence.stage import BATCH_LOADERS, Stage
from uncork.rules.base.findings import input_finding
from uncork.rules.base.thresholds import (
    MIN_FINDING_SPEEDUP,
    format_ms,
    input_share,
    speedup_bound,
    stage_label,
)
from uncork.rules.input.cache import MAX_MEMORY_SHARE

_OPS: Final = "write the function with TensorFlow ops"
_LOCKED: Final = "; more parallel calls do not help"
_CHUNKS: Final = "let it yield several elements at a time, stacked, and add .unbatch()"
_KEEP: Final = "cache what it yields: .cache() after from_generator, before shuffle"
_AGAIN: Final = (
    "memoize its results, in a dict by the values of its arguments (path.numpy(): a tensor cannot "
    "be a key); or write it with TensorFlow ops"
)
_ANY: Final = (
    "read with tf.data; or give the loader workers, PyDataset(workers=N), if __getitem__ changes "
    "nothing that another call reads"
)
# Of what makes one batch after the other, and cannot be asked for another one.
_WHOLE: Final = {
    "loop": "prepare batches during the step: wrap their source in Dataset.from_generator(...), "
    "and add .prefetch(...)",
    "generator": "a generator yields one batch after the other: read with tf.data; or turn it into "
    "a PyDataset, whose __getitem__(index) returns the batch of that index, and give "
    "it workers",
}
_QUEUE: Final = "compute on whole arrays instead of rows, or read with tf.data; threads do not help"
# Of a loader's time, what threads must save to be called a help.
_HELP: Final = 0.2
# Of an element's time, what it may still take among others to be said.
_SOON: Final = 0.7


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """One finding for the Python stage that holds the step up."""
    loaders = [s for s in diagnosis.stages if s.has_python_code]
    if not loaders:
        return
    slowest = max(loaders, key=lambda s: (s.wall_s_per_element or 0) * (s.elements_per_step or 1))
    wall_s = (slowest.wall_s_per_element or 0.0) * (slowest.elements_per_step or 1.0)
    upper = speedup_bound(diagnosis.step_s, diagnosis.step_s * (1 - input_share(diagnosis)))
    if slowest.kind == "loop":  # it runs while nothing else does: no more than that can be won
        found = diagnosis.evaluation_calls
        wall_s -= found.share * diagnosis.step_s if found else 0.0  # that is Keras's own
        upper = min(upper, speedup_bound(diagnosis.step_s, diagnosis.step_s - wall_s))
    elif slowest.kind not in BATCH_LOADERS:  # other stages may be as slow
        costs = attribute_costs(diagnosis, machine.cpus)
        upper = min(upper, predict_gain(costs, costs.without_stages([slowest.index])))
    if wall_s < (1 - 1 / MIN_FINDING_SPEEDUP) * diagnosis.step_s:
        return
    if _labels_s(diagnosis, slowest) > wall_s / 2:
        return  # what takes the time is not Python, but zeros
    cause: Cause = "py_function" if slowest.kind == "map" else "python_loader"
    kept = _may_keep(diagnosis, slowest)
    serially = ", one call at a time under the global interpreter lock"
    evidence = (
        f"{stage_label(slowest)} runs Python for {format_ms(wall_s)} a "
        f"step{serially if slowest.parallelism in (None, 1) else ''}; a step takes "
        f"{format_ms(diagnosis.step_s)}"
    )
    remedy = _in_ops(slowest, kept) if cause == "py_function" else _remedy(slowest, kept)
    yield from input_finding(
        diagnosis, cause, upper, slowest.python_code_at or slowest.at, evidence, remedy
    )


def _may_keep(diagnosis: WorkloadDiagnosis, stage: Stage) -> bool:
    """It makes the same again, which is read again, and there is memory for it."""
    if stage.memoization is None or diagnosis.workload.min_passes < 2:
        return False
    return stage.memoization.total_bytes <= MAX_MEMORY_SHARE * diagnosis.memory_available_bytes


def _in_ops(stage: Stage, kept: bool) -> str:
    """What was seen of the function in threads, where it could be tried."""
    if kept:
        return _AGAIN
    alone, together = stage.wall_s_per_element, stage.threaded_wall_s_per_element
    if alone is None or together is None:
        return _OPS
    if together > (1 - _HELP) * alone or stage.parallelism != 1:
        return _OPS + _LOCKED
    return (
        "map(..., num_parallel_calls=tf.data.AUTOTUNE): with one thread for each core an element "
        f"took {format_ms(together)} instead of {format_ms(alone)}; or {_OPS}"
    )


def _remedy(loader: Stage, kept: bool) -> str:
    """What was seen of the loader in threads, where it could be tried."""
    wall_s = loader.wall_s_per_element or 0.0
    if loader.kind in _WHOLE:
        return _WHOLE[loader.kind]
    if loader.kind == "from_generator" and kept:
        return _KEEP
    if loader.chunked_cost is not None and loader.chunked_cost.wall_s_per_element < _SOON * wall_s:
        return (
            f"{_CHUNKS}: one at a time, an element takes {format_ms(wall_s)}; "
            f"{loader.chunked_cost.max_elements} at a time, it takes "
            f"{format_ms(loader.chunked_cost.wall_s_per_element)}"
        )
    return _with_workers(loader)


def _with_workers(loader: Stage) -> str:
    alone, together = loader.wall_s_per_element, loader.threaded_wall_s_per_element
    if alone is None or together is None:
        return _ANY
    apart = loader.multiprocess_wall_s_per_element
    if apart is not None and apart < (1 - _HELP) * min(alone, together):
        seeds = (
            (
                ", and seed the random generators in each process: all processes start with the "
                "same state"
            )
            if loader.is_random
            else ""
        )
        return (
            f"give it processes: super().__init__(workers=N, use_multiprocessing=True){seeds}; "
            f"with one process for each core a batch took {format_ms(apart)} instead of "
            f"{format_ms(alone)}, with threads {format_ms(together)}"
        )
    if together > (1 - _HELP) * alone:
        return _QUEUE
    return (
        "give it workers: super().__init__(workers=N); with one thread for each core a batch took "
        f"{format_ms(together)} instead of {format_ms(alone)}"
    )


def _labels_s(diagnosis: WorkloadDiagnosis, loader: Stage) -> float:
    """Of a call of the loader, what filling one-hot labels takes."""
    by_batch = loader.kind in BATCH_LOADERS
    return diagnosis.one_hot_labels.creation_s if diagnosis.one_hot_labels and by_batch else 0.0
