"""The evidence that is collected once for a training: no edit in between changes it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Any, Final

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
from uncork.training.variant import Variant, VariantRunner, compare_in_memory

# Steps whose kernels are profiled: after some ninety steps TensorFlow drops kernels.
_PROFILED_STEPS: Final = 16
_MAX_PROFILE_S: Final = 1.0
# Kernels of a step that update small weights: fewer do not justify another trace of the step.
_MIN_UPDATE_KERNELS: Final = 200
# How long shapes are compiled, one at least.
_COMPILING_S: Final = 6.0


@dataclass
class EvidenceContext:
    """What collectors work with.

    Attributes:
        subject: The training that is examined.
        variant: The version of it that runs.
        journal: Receives each phase.
        step_s: Seconds of a step as it runs.
        block_s: Seconds of one block of a comparison.
        is_step_dominant: The step takes most of the time.
        has_kernel_profile: The profiler of this host sees the kernels of the step.
        deadline_s: When collecting ends, by :func:`time.monotonic`: nothing is begun after it.
        kernels: Collected so far.
        left_out: Fields for which there was no time.
    """

    subject: Subject
    variant: Variant
    journal: Journal
    step_s: float
    block_s: float
    is_step_dominant: bool
    has_kernel_profile: bool
    deadline_s: float = math.inf
    kernels: tuple[KernelGroup, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def epoch_s(self) -> float | None:
        """Seconds of the steps of an epoch; None where its length is unknown."""
        steps = self.subject.workload.steps_per_epoch
        return steps * self.step_s if steps else None

    def compare(self, phase: str, changed: VariantRunner) -> Comparison:
        """Compare a changed step with the step as it is, both on one batch from memory."""
        self.journal.write("phase", phase)
        original = self.subject.resident_runner(self.variant)
        return compare_in_memory(original, changed, self.block_s / 2)


@dataclass(frozen=True)
class Collector:
    """One kind of evidence: where it stands in a diagnosis, and how it is collected.

    Attributes:
        field: Name of the field in :class:`~uncork.core.documents.diagnosis.WorkloadDiagnosis`.
        collect: Returns its value.
        raises_errors: It runs the user's own loop, whose errors are the user's, or only reads what
            was collected. An error of any other collector leaves the field at its default: the
            step may be made for one length only or need its metrics, a profiler may be in use,
            memory or data may be exhausted, and a callback may do anything.
        is_always_collected: It shows that the training is wrong, or takes no time worth naming:
            collected after the deadline, too.
    """

    field: str
    collect: Callable[[EvidenceContext], Any]
    raises_errors: bool = False
    is_always_collected: bool = False


def collect_evidence(context: EvidenceContext) -> dict[str, Any]:
    """Collect all evidence of a training in the order of :data:`COLLECTORS`.

    Returns:
        Fields of a diagnosis. A field whose collector failed, or had no time left, is missing.
    """
    found: dict[str, Any] = {}
    for collector in COLLECTORS:
        if time.monotonic() > context.deadline_s and not collector.is_always_collected:
            context.left_out += (collector.field,)
            continue
        with nullcontext() if collector.raises_errors else suppress(Exception):
            found[collector.field] = collector.collect(context)
    return found


def unmeasured_notes(context: EvidenceContext, limit_s: float) -> tuple[str, ...]:
    """A note that names the evidence for which there was no time; none where there was enough.

    Args:
        context: What was collected with it.
        limit_s: Seconds that the diagnosis was allowed.
    """
    if not context.left_out:
        return ()
    names = ", ".join(name.replace("_", " ") for name in context.left_out)
    return (f"not measured within {limit_s:.0f} s: {names}; a longer --budget measures them, too",)


def update_evidence(earlier: WorkloadDiagnosis, context: EvidenceContext) -> dict[str, Any]:
    """Take all evidence from an earlier diagnosis: no edit in between changes it.

    Kernels are profiled where the step was no large part of the time then, and is by now.
    """
    collected = (collector.field for collector in COLLECTORS)
    found = {name: getattr(earlier, name) for name in (*collected, *_ADDED_LATER)}
    if not earlier.kernels:
        with suppress(Exception):  # a profiler may be in use
            found["kernels"] = _kernels(context)
    return found


def _cold_files(context: EvidenceContext) -> ColdFiles | None:
    pipeline = context.variant.pipeline
    return None if pipeline is None else measure_cold_files(pipeline)


def _padding(context: EvidenceContext) -> BatchPadding | None:
    """The step on a batch without most of its padding."""
    found = context.subject.unpadded_runner() if context.is_step_dominant else None
    if found is None:
        return None
    padding, shorter = found
    return BatchPadding(
        max_length=padding.padded_length,
        mean_length=padding.mean_length,
        bucketed_mean_length=padding.grouped_length,
        truncated_speedup=context.compare(
            "measuring the step on a batch without its padding", shorter
        ),
        at=find_only_call("pad_sequences"),
    )


def _speedup_without_metrics(context: EvidenceContext) -> Comparison | None:
    changed = context.subject.runner_without_metrics() if context.is_step_dominant else None
    if changed is None:
        return None
    return context.compare("measuring the step without its metrics", changed)


def _kernels(context: EvidenceContext) -> tuple[KernelGroup, ...]:
    if context.has_kernel_profile:
        context.journal.write("phase", "profiling the kernels of the step")
        seconds = min(_PROFILED_STEPS * context.step_s, _MAX_PROFILE_S)
        context.kernels = context.subject.measure_kernels(context.variant, seconds)
    return context.kernels


def _flat_updates_speedup(context: EvidenceContext) -> Comparison | None:
    """The step with one update of all its small weights, where they have many kernels."""
    groups = (group for group in context.kernels if group.phase == "optimizer")
    workload = context.subject.workload
    if (
        sum(group.short_calls_per_step for group in groups) < _MIN_UPDATE_KERNELS
        or not workload.small_weight_count
        or workload.jit_compile
        or workload.is_fit_in_loop
    ):
        return None
    changed = context.variant.with_step_edits((FlatUpdates(),))
    return context.compare(
        "measuring the step with fused updates of all small weights",
        context.subject.resident_runner(changed),
    )


def _larger_replica_batch(context: EvidenceContext) -> LargerReplicaBatch | None:
    """The step of several replicas with a larger batch."""
    found = context.subject.larger_replica_batch_runner()
    if found is None:
        return None
    factor, larger = found
    phase = "measuring the step of all replicas on a larger batch"
    return LargerReplicaBatch(batch_multiplier=factor, speedup=context.compare(phase, larger))


# In order of measurement: later ones use what earlier ones found, and the last ones run the
# user's own loop.
COLLECTORS: Final = (
    Collector("padding", _padding),
    Collector("speedup_without_metrics", _speedup_without_metrics),
    Collector("kernels", _kernels),
    Collector("flat_updates_speedup", _flat_updates_speedup),
    Collector("busy_core_speed_ratio", lambda _: busy_core_speed_ratio()),
    Collector("cold_files", _cold_files),
    Collector("one_hot_labels", lambda at: at.subject.measure_one_hot_labels()),
    Collector("transfer", lambda at: at.subject.measure_transfer(at.variant)),
    Collector("callbacks", lambda at: at.subject.measure_callbacks()),
    Collector("validation", lambda at: at.subject.measure_validation(at.epoch_s, at.block_s)),
    Collector("checkpoint_cost", lambda at: at.subject.measure_checkpoint_cost(at.step_s)),
    Collector(
        "varying_shapes", lambda at: at.subject.measure_varying_shapes(at.step_s, _COMPILING_S)
    ),
    Collector("larger_replica_batch", _larger_replica_batch),
    Collector("state_growth", lambda at: at.subject.measure_state_growth(2 * at.block_s)),
    Collector(
        "keras_defects", lambda at: at.subject.find_keras_defects(), is_always_collected=True
    ),
    Collector(
        "reshuffled_split", lambda at: at.subject.find_reshuffled_split(), is_always_collected=True
    ),
    Collector(
        "recreated_function",
        lambda at: at.subject.measure_recreated_function(at.step_s),
        raises_errors=True,
    ),
    Collector("host_sync", lambda at: at.subject.measure_host_sync(at.block_s), raises_errors=True),
    Collector(
        "evaluation_calls",
        lambda at: at.subject.measure_evaluation_calls(at.block_s),
        raises_errors=True,
    ),
    Collector(
        "loop_lines", lambda at: at.subject.measure_loop_lines(at.block_s), raises_errors=True
    ),
    Collector(
        "slow_layers", lambda at: at.subject.find_slow_layers(at.kernels), raises_errors=True
    ),
    Collector(
        "full_resolution_layers",
        lambda at: at.subject.find_full_resolution_layers(),
        raises_errors=True,
        is_always_collected=True,
    ),
)
# Evidence that other modules add to a finished diagnosis.
_ADDED_LATER: Final = ("cache_folder", "batch_size_trials", "memory_overflow")
