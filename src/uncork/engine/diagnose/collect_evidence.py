"""What is looked at once, of a training as its author wrote it: no edit in between changes it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

from uncork.core.base.journal import Journal
from uncork.core.base.measurement import Comparison
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.edits.step import FlatUpdates
from uncork.core.evidence.batches import LargerReplicaBatch
from uncork.core.evidence.kernels import KernelGroup
from uncork.core.evidence.model import BatchPadding
from uncork.core.evidence.storage import ColdFiles
from uncork.engine.subject.subject import Subject
from uncork.measure.benchmark.core_contention import busy_core_speed_ratio
from uncork.pipeline.analysis.input_files import measure_cold_files
from uncork.pycode.frames.value_origin import find_only_call
from uncork.training.variant import Variant, compare_in_memory

# Steps whose kernels are looked at: after some ninety runs TensorFlow no longer tells all of them.
_LOOKED_AT: Final = 16
_MOST_LOOKED_AT_S: Final = 1.0
# Kernels of a step that update small weights: fewer are not worth another trace of it.
_MANY_UPDATES: Final = 200
# Shapes are compiled for so long, one at least.
_COMPILING_S: Final = 6.0
_CARRIED: Final = (
    "cache_folder",
    "cold_files",
    "busy_core_speed_ratio",
    "padding",
    "speedup_without_metrics",
    "flat_updates_speedup",
    "one_hot_labels",
    "transfer",
    "callbacks",
    "validation",
    "checkpoint_cost",
    "kernels",
    "slow_layers",
    "full_resolution_layers",
    "loop_lines",
    "varying_shapes",
    "larger_replica_batch",
    "batch_size_trials",
    "memory_overflow",
    "recreated_function",
    "host_sync",
    "evaluation_calls",
    "state_growth",
    "keras_defects",
    "reshuffled_split",
)

T = TypeVar("T")
U = TypeVar("U")


def earlier_evidence(earlier: WorkloadDiagnosis) -> dict[str, Any]:
    """All of it from an earlier diagnosis."""
    return {name: getattr(earlier, name) for name in _CARRIED}


def collect_evidence(
    subject: Subject,
    variant: Variant,
    journal: Journal,
    *,
    step_s: float,
    block_s: float,
    is_step_dominant: bool,
    has_kernel_profile: bool,
) -> dict[str, Any]:
    """All of it, as fields of a diagnosis.

    Args:
        subject: What is trained.
        variant: Which version of it.
        journal: Told of each phase.
        step_s: Of a step as it runs.
        block_s: How long to look at each thing.
        is_step_dominant: The step is most of the time.
        has_kernel_profile: And this host's profiler tells of its kernels.
    """
    kernels: tuple[KernelGroup, ...] = ()
    padded = without_metrics = None
    if is_step_dominant:
        padded = _or(None, lambda: _padded(subject, variant, block_s, journal))
        without_metrics = _or(None, lambda: _without_metrics(subject, variant, block_s, journal))
    if has_kernel_profile:
        journal.write("phase", "profiling the kernels of the step")
        looked_at_s = min(_LOOKED_AT * step_s, _MOST_LOOKED_AT_S)
        kernels = _or((), lambda: subject.measure_kernels(variant, looked_at_s))
    at_once = _or(None, lambda: _updated_at_once(subject, variant, kernels, block_s, journal))
    steps = subject.workload.steps_per_epoch
    epoch_s = steps * step_s if steps else None
    return {
        "busy_core_speed_ratio": busy_core_speed_ratio(),
        "cold_files": _or(None, lambda: _from_disk(variant)),
        "padding": padded,
        "speedup_without_metrics": without_metrics,
        "flat_updates_speedup": at_once,
        "one_hot_labels": _or(None, subject.measure_one_hot_labels),
        "transfer": _or(None, lambda: subject.measure_transfer(variant)),
        "callbacks": _or((), subject.measure_callbacks),
        "validation": _or(None, lambda: subject.measure_validation(epoch_s, block_s)),
        "checkpoint_cost": _or(None, lambda: subject.measure_checkpoint_cost(step_s)),
        "kernels": kernels,
        "varying_shapes": _or(None, lambda: subject.measure_varying_shapes(step_s, _COMPILING_S)),
        "larger_replica_batch": _or(None, lambda: _larger(subject, variant, block_s, journal)),
        "state_growth": _or(None, lambda: subject.measure_state_growth(2 * block_s)),
        "keras_defects": _or((), subject.find_keras_defects),
        "reshuffled_split": _or(None, subject.find_reshuffled_split),
        # Here the user's own loop runs: its errors are the user's.
        "recreated_function": subject.measure_recreated_function(step_s),
        "host_sync": subject.measure_host_sync(block_s),
        "evaluation_calls": subject.measure_evaluation_calls(block_s),
        "loop_lines": subject.measure_loop_lines(block_s),
        "slow_layers": subject.find_slow_layers(kernels),
        "full_resolution_layers": subject.find_full_resolution_layers(),
    }


def _or(unknown: U, look: Callable[[], T]) -> T | U:
    """What a look tells; nothing is known where it breaks.

    A step for one length only, one that wants its metrics, a profiler in use, no memory left on the
    device, data that is gone, callbacks that want anything: none of them ends a diagnosis.
    """
    with suppress(Exception):
        return look()
    return unknown


def _from_disk(version: Variant) -> ColdFiles | None:
    return None if version.pipeline is None else measure_cold_files(version.pipeline)


def _padded(
    subject: Subject, version: Variant, block_s: float, journal: Journal
) -> BatchPadding | None:
    """The step on a batch without most of its padding against the batch as it is."""
    found = subject.unpadded_runner()
    if found is None:
        return None
    journal.write("phase", "measuring the step on a batch without its padding")
    padding, shorter = found
    compared = compare_in_memory(subject.resident_runner(version), shorter, block_s / 2)
    at = find_only_call("pad_sequences")
    return BatchPadding(
        max_length=padding.padded_length,
        mean_length=padding.mean_length,
        bucketed_mean_length=padding.grouped_length,
        truncated_speedup=compared,
        at=at,
    )


def _larger(
    subject: Subject, version: Variant, block_s: float, journal: Journal
) -> LargerReplicaBatch | None:
    """The step of several replicas with a larger batch against the same as it is."""
    found = subject.larger_replica_batch_runner()
    if found is None:
        return None
    journal.write("phase", "measuring the step of all replicas on a larger batch")
    times, larger = found
    return LargerReplicaBatch(
        batch_multiplier=times,
        speedup=compare_in_memory(subject.resident_runner(version), larger, block_s / 2),
    )


def _without_metrics(
    subject: Subject, version: Variant, block_s: float, journal: Journal
) -> Comparison | None:
    """The step without its metrics against the same as it is."""
    fewer = subject.runner_without_metrics()
    if fewer is None:
        return None
    journal.write("phase", "measuring the step without its metrics")
    return compare_in_memory(subject.resident_runner(version), fewer, block_s / 2)


def _updated_at_once(
    subject: Subject,
    version: Variant,
    kernels: tuple[KernelGroup, ...],
    block_s: float,
    journal: Journal,
) -> Comparison | None:
    """The step with one update of all its small weights against the same as it is."""
    updates = sum(part.short_calls_per_step for part in kernels if part.phase == "optimizer")
    work = subject.workload
    if (
        updates < _MANY_UPDATES
        or not work.small_weight_count
        or work.jit_compile
        or work.is_fit_in_loop
    ):
        return None
    journal.write("phase", "measuring the step with fused updates of all small weights")
    at_once = version.with_step_edits((FlatUpdates(),))
    return compare_in_memory(
        subject.resident_runner(version), subject.resident_runner(at_once), block_s / 2
    )
