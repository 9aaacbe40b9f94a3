"""Measure one training call: steady state, ceilings, shares, stages. Rules judge it afterwards."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from typing import Any, Final

import tensorflow as tf

from uncork.compat.tf.devices import is_op_determinism_enabled
from uncork.core.base.journal import Journal
from uncork.core.base.machine import Machine
from uncork.core.base.measurement import Measurement
from uncork.core.base.record import replace
from uncork.core.costmodel.ceilings import disk_ceiling, input_ceilings
from uncork.core.costmodel.compile_time import with_compile_share
from uncork.core.costmodel.transfer_time import without_offloaded_maps
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.workload import Workload
from uncork.core.edits.edit import LoaderCache, LoaderProcesses, LoaderWorkers
from uncork.core.edits.step import (
    JitCompileOff,
    PaddingEdit,
    StepEdit,
    find_map_on_device,
    has_tf_function,
)
from uncork.core.evidence.batches import VaryingShapes
from uncork.core.evidence.stage import INFINITE_LENGTH, Stage, with_autotuned_parallelism
from uncork.engine.diagnose.collect_evidence import (
    EvidenceContext,
    collect_evidence,
    unmeasured_notes,
    update_evidence,
)
from uncork.engine.diagnose.contradictions import resolve_contradictions
from uncork.engine.diagnose.precision_trials import measure_other_precision
from uncork.engine.diagnose.time_breakdown import TimeBreakdown, measure_breakdown
from uncork.engine.subject.subject import Subject
from uncork.measure.machine.devices import has_native_bfloat16, has_native_float16
from uncork.measure.machine.probe import available_memory_bytes
from uncork.pipeline.analysis.passes import has_default_rewrites
from uncork.pipeline.profile.disk_speed import measure_cache_folder
from uncork.pipeline.profile.stage_costs import measure_stage_costs as measure_stages
from uncork.rules.judge import judge
from uncork.training.tracing.side_effects import find_side_effects
from uncork.training.variant import Variant

# Share of the step in kernels above which their precision is worth a look.
_COMPUTING: Final = 0.5


@dataclass(frozen=True)
class _Seconds:
    """How long to look at each part.

    Attributes:
        block: Long enough for dozens of steps of a small model and a few of a large one.
        rounds: Blocks of each kind.
        more: Times longer, for what is not clear by then.
        supply: The input alone.
        stages: All stages together.
    """

    block: float
    rounds: int
    more: int
    supply: float
    stages: float

    def scaled(self, share: float) -> _Seconds:
        """Shorter by this share, but not so short that a block holds nothing."""
        share = min(1.0, max(_SHORTEST, share))
        block, supply, stages = self.block * share, self.supply * share, self.stages * share
        more = self.more if share == 1.0 else 1
        return replace_fields(self, block=block, supply=supply, stages=stages, more=more)


_CAREFUL: Final = _Seconds(block=0.8, rounds=4, more=2, supply=1.5, stages=6.0)
# What all of that takes, compilation aside; and the least of it that still measures something.
DEFAULT_BUDGET_S: Final = 20.0
_SHORTEST: Final = 0.1
# Times that budget: when a diagnosis ends, compilation included, whatever is left to measure. And
# the part of that time by which a step must have been taken apart.
_LIMIT: Final = 3.0
_MIN_LIMIT_S: Final = 60.0
_BREAKDOWN_SHARE: Final = 0.5
# Of the time.
_TRIFLE: Final = 0.05
# Between two trials: only to see where the bottleneck is now.
_BRIEF: Final = _Seconds(block=0.5, rounds=3, more=1, supply=0.8, stages=2.5)


def observe(
    subject: Subject,
    machine: Machine,
    journal: Journal,
    *,
    variant: Variant | None = None,
    known: Measurement | TimeBreakdown | None = None,
    earlier: WorkloadDiagnosis | None = None,
    budget_s: float = DEFAULT_BUDGET_S,
) -> WorkloadDiagnosis:
    """Diagnose a version of a training, its findings included.

    Args:
        subject: What is trained.
        machine: Where.
        journal: Told of each phase.
        variant: The original unless given.
        known: Its speed where that is known from a comparison, or its step taken apart; the rest is
            then looked at only briefly.
        earlier: An earlier diagnosis; what an edit in between cannot have changed is taken from it.
        budget_s: Seconds for a careful look, compilation aside; a shorter one is noisier. What is
            not begun after three times as long is left out, and a note names it.
    """
    limit_s = max(_MIN_LIMIT_S, _LIMIT * budget_s)
    deadline_s = time.monotonic() + limit_s
    variant = variant or subject.original
    seconds = _BRIEF if known else _CAREFUL.scaled(budget_s / DEFAULT_BUDGET_S)
    if isinstance(known, TimeBreakdown):
        shares = known
    else:
        text = f"measuring {subject.workload.at} with its input and on one batch kept in memory"
        journal.write("phase", text, is_milestone=known is None)
        shares = measure_breakdown(
            subject,
            variant,
            block_s=seconds.block,
            rounds=seconds.rounds,
            retry_factor=seconds.more,
            check_training=known is None,
            limit_s=_BREAKDOWN_SHARE * limit_s,
        )
    measurement = known if isinstance(known, Measurement) else shares.measurement
    if known is None:
        speed = measurement.samples_per_s
        journal.write("measured", "unmodified", samples_per_s=speed, is_milestone=True)
    ceilings = {"consumer": measurement.samples_per_s * shares.consumer_speedup}
    ceilings["host"] = _host_ceiling(measurement, machine)
    digest = variant.pipeline.digest if variant.pipeline else ""
    loader = _loader(subject, variant)
    if earlier is not None and _input(earlier.workload) == (digest, *loader.values()):
        ceilings["supply"], stages = earlier.ceilings["supply"], earlier.stages
    else:
        journal.write("phase", "measuring the input separately, stage by stage")
        together = subject.measure_supply(variant, seconds.supply)
        samples = (subject.workload.batch_size or 1) * variant.batch_multiplier
        ceilings["supply"] = together.batches_per_s * samples
        stages = with_autotuned_parallelism(
            _stages(subject, variant, seconds), together.autotuned_parallelism
        )
    ceilings |= input_ceilings(stages, _samples(measurement), machine.cpus)
    computing = shares.shares["step"] >= _COMPUTING
    precisions = measure_other_precision(
        subject,
        variant,
        journal,
        earlier=earlier,
        is_step_dominant=computing,
        block_s=seconds.block,
    )
    # Of an accelerator's kernels this host's processor knows only how they were started.
    told = computing and not (machine.devices or _is_eager(subject, variant))
    context = EvidenceContext(
        subject,
        variant,
        journal,
        step_s=measurement.step_s.median,
        block_s=seconds.block,
        is_step_dominant=computing,
        has_kernel_profile=told,
        deadline_s=deadline_s,
    )
    once = collect_evidence(context) if earlier is None else update_evidence(earlier, context)
    unmeasured = unmeasured_notes(context, limit_s)
    ceilings |= disk_ceiling(once.get("cold_files"), stages, _samples(measurement))
    moved = find_map_on_device(variant.step_edits)
    if moved is not None:
        stages = without_offloaded_maps(stages, moved.expected_digest)
        once["transfer"] = subject.measure_transfer(variant)
    once["varying_shapes"] = _compiled_for(once.get("varying_shapes"), variant.step_edits)
    found = WorkloadDiagnosis(
        workload=replace(
            _of_steps(subject.observed_workload(), variant.batch_multiplier),
            is_eager_step=_is_eager(subject, variant),
            pipeline_digest=digest,
            **loader,
            has_default_rewrites=has_default_rewrites(variant.pipeline),
        ),
        measurement=measurement,
        ceilings=ceilings,
        headroom=max(1.0, shares.consumer_speedup),
        breakdown=shares.shares,
        breakdown_intervals=shares.intervals,
        tracing_share=shares.tracing_share,
        step_s_without_tracing=subject.untraced_s(seconds.block)
        if shares.tracing_share > _TRIFLE
        else None,
        consumer_cpu_s=shares.consumer_cpu_s,
        stages=stages,
        notes=tuple(
            dict.fromkeys(
                [
                    *subject.notes,
                    *_notes(subject.workload, measurement, stages),
                    *unmeasured,
                    *find_side_effects(),
                ]
            )
        ),
        memory_available_bytes=available_memory_bytes(),
        has_native_bfloat16=has_native_bfloat16(),
        has_fast_float16=has_native_float16(),
        has_deterministic_ops=is_op_determinism_enabled(),
        startup_lines=subject.startup_lines,
        first_step_s=earlier.first_step_s
        if earlier
        else max(shares.traced_s, shares.first_step_s, subject.first_step_s),
        unrolled_loop=earlier.unrolled_loop
        if earlier
        else subject.find_unrolled_loop(shares.traced_s),
        **precisions,
        **once,
    )
    agreed = resolve_contradictions(
        subject,
        variant,
        with_compile_share(found),
        journal,
        block_s=seconds.block,
        deadline_s=deadline_s,
    )
    return judge(agreed, machine)


def with_disk(diagnosis: WorkloadDiagnosis, folder: str, journal: Journal) -> WorkloadDiagnosis:
    """The same, with what is known of a folder for files where the user has named one."""
    if not folder:
        return diagnosis
    journal.write("phase", f"measuring the speed of writing and reading files in {folder}")
    return replace(diagnosis, cache_folder=measure_cache_folder(folder))


def _between_epochs(measured: Measurement) -> Iterator[str]:
    """What no line of the user's is to blame for, where it is more than a trifle."""
    if measured.between_epochs_share is not None and measured.between_epochs_share > _TRIFLE:
        yield (
            f"{measured.between_epochs_share:.0%} of the time passes between epochs, where "
            "TensorFlow "
            "may wait for the thread that tunes a tf.data pipeline: see autotune_off"
        )


def _notes(work: Workload, measured: Measurement, stages: Sequence[Stage]) -> Iterator[str]:
    """What figures are to be read with."""
    yield from _between_epochs(measured)
    if tf.config.functions_run_eagerly():
        yield (
            "tf.config.run_functions_eagerly(True) is active: every function runs eagerly, and "
            "all figures are for eager execution; remove it, and diagnose again"
        )
    there = next((stage for stage in stages if stage.kind == "cache"), None)
    ends = there is not None and there.length != INFINITE_LENGTH
    if there is not None and ends and work.min_passes == 1 and not work.is_fit_in_loop:
        at = f" at {there.at}" if there.at else ""
        yield (
            f"the figures are for epochs that read the cache{at}; the "
            "script has only one epoch, which fills it and takes longer"
        )
    for endless in (s for s in stages if s.kind == "cache" and s.length == INFINITE_LENGTH):
        at = f" at {endless.at}" if endless.at else ""
        yield (
            f"the cache{at} stores an infinite dataset: it takes more memory or disk at each step, "
            "and is never read again; call cache() before repeat()"
        )


def _is_eager(subject: Subject, version: Variant) -> bool:
    return subject.workload.is_eager_step and not has_tf_function(version.step_edits)


def _loader(subject: Subject, version: Variant) -> dict[str, Any]:
    """How a version reads its Python loader, in the fields of a workload."""
    workers = subject.workload.loader_workers
    for edit in version.loader_edits:
        workers = edit.workers if isinstance(edit, LoaderWorkers) else workers
        workers = edit.processes if isinstance(edit, LoaderProcesses) else workers
    kept = any(isinstance(edit, LoaderCache) for edit in version.loader_edits)
    return {"loader_workers": workers, "is_loader_cached": kept}


def _input(known: Workload) -> tuple[object, ...]:
    return known.pipeline_digest, known.loader_workers, known.is_loader_cached


def _of_steps(workload: Workload, times: int) -> Workload:
    """The same, with so many of its batches in each step."""
    if times == 1:
        return workload
    size, steps = workload.batch_size, workload.steps_per_epoch
    return replace(
        workload,
        batch_size=size and times * size,
        steps_per_epoch=steps and -(-steps // times),
    )


def _stages(subject: Subject, version: Variant, seconds: _Seconds) -> tuple[Stage, ...]:
    if version.pipeline is None:
        return subject.loader_stages(version)
    batch_size = (subject.workload.batch_size or 0) * version.batch_multiplier or None
    return measure_stages(version.pipeline, batch_size=batch_size, budget_s=seconds.stages)


def _host_ceiling(measured: Measurement, machine: Machine) -> float:
    """samples/s if every core were busy all the time with what a step costs now."""
    if measured.cpu_s_per_step <= 0:
        return measured.samples_per_s
    return _samples(measured) * machine.cpus / measured.cpu_s_per_step


def _samples(measured: Measurement) -> float:
    """Of a step."""
    return measured.samples_per_s * measured.step_s.median


def _compiled_for(new: VaryingShapes | None, edits: tuple[StepEdit, ...]) -> VaryingShapes | None:
    """Shapes for which a step under these edits is still compiled anew."""
    if new is None or any(isinstance(edit, JitCompileOff) for edit in edits):
        return None
    filled = next((edit for edit in edits if isinstance(edit, PaddingEdit)), None)
    return new.padded_to(filled.multiple) if filled is not None and new.padded_shapes else new


def with_epoch_hooks(
    subject: Subject, diagnosis: WorkloadDiagnosis, machine: Machine
) -> WorkloadDiagnosis:
    """With what callbacks take before and after an epoch: the last that is measured of it."""
    with suppress(Exception):  # callbacks want anything
        costs = subject.measure_epoch_hooks()
        return judge(replace(diagnosis, callbacks=(*diagnosis.callbacks, *costs)), machine)
    return diagnosis
