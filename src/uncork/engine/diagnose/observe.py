"""Measure one training call: steady state, ceilings, shares, stages. Rules judge it afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from typing import Any, Final

import tensorflow as tf
from tensorflow.python.framework.config import is_op_determinism_enabled

from uncork.core.base.journal import Journal
from uncork.core.base.machine import Machine
from uncork.core.base.measurement import Measurement
from uncork.core.base.record import replace
from uncork.core.costmodel.ceilings import disk_ceiling, input_ceilings
from uncork.core.costmodel.compile_time import with_compiling
from uncork.core.costmodel.transfer_time import left_to_the_step
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.workload import Workload
from uncork.core.edits.edit import LoaderCache, LoaderProcesses, LoaderWorkers
from uncork.core.edits.step import FillsUp, JitCompileOff, StepEdit, is_graph, on_device
from uncork.core.evidence.batches import NewShapes
from uncork.core.evidence.stage import ENDLESS, Stage, with_chosen
from uncork.engine.diagnose.collect_evidence import carried, look_once
from uncork.engine.diagnose.precision_trials import in_other_precision
from uncork.engine.diagnose.time_breakdown import take_apart
from uncork.engine.subject.subject import Subject
from uncork.measure.machine.devices import native_bfloat16, native_float16
from uncork.measure.machine.probe import available_memory
from uncork.pipeline.analysis.passes import default_rewrites
from uncork.pipeline.profile.disk_speed import disk_at
from uncork.pipeline.profile.stage_costs import measure as measure_stages
from uncork.rules.judge import judge
from uncork.training.tracing.side_effects import side_effects
from uncork.training.variant import Version

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
        return replace_fields(self, block=block, supply=supply, stages=stages)


_CAREFUL: Final = _Seconds(block=0.8, rounds=4, more=2, supply=1.5, stages=6.0)
# What all of that takes, compilation aside; and the least of it that still measures something.
BUDGET_S: Final = 20.0
_SHORTEST: Final = 0.1
# Of the time.
_TRIFLE: Final = 0.05
# Between two trials: only to see where the bottleneck is now.
_BRIEF: Final = _Seconds(block=0.5, rounds=3, more=1, supply=0.8, stages=2.5)


def observe(
    subject: Subject,
    machine: Machine,
    journal: Journal,
    *,
    version: Version | None = None,
    measured: Measurement | None = None,
    known: WorkloadDiagnosis | None = None,
    budget_s: float = BUDGET_S,
) -> WorkloadDiagnosis:
    """Diagnose a version of a training, its findings included.

    Args:
        subject: What is trained.
        machine: Where.
        journal: Told of each phase.
        version: The original unless given.
        measured: Its speed where that is known already from a comparison; the rest is then looked
            at only briefly.
        known: An earlier diagnosis; what an edit in between cannot have changed is taken from it.
        budget_s: Seconds for a careful look, compilation aside; a shorter one is noisier.
    """
    version = version or subject.original
    seconds = _BRIEF if measured else _CAREFUL.scaled(budget_s / BUDGET_S)
    journal.write("phase", f"measuring {subject.workload.at} as it runs and on a resident batch")
    shares = take_apart(
        subject,
        version,
        block_s=seconds.block,
        rounds=seconds.rounds,
        more=seconds.more,
        ask_training=measured is None,
    )
    if measured is None:
        measured = shares.measured
        journal.write("measured", "as it is", samples_per_s=measured.samples_per_s)
    ceilings = {"consumer": measured.samples_per_s * shares.consumer}
    ceilings["host"] = _host_ceiling(measured, machine)
    digest = version.pipeline.digest if version.pipeline else ""
    loader = _loader(subject, version)
    if known is not None and _input(known.workload) == (digest, *loader.values()):
        ceilings["supply"], stages = known.ceilings["supply"], known.stages
    else:
        journal.write("phase", "measuring the input alone, stage by stage")
        together = subject.supplied(version, seconds.supply)
        samples = (subject.workload.batch_size or 1) * version.times
        ceilings["supply"] = together.batches_per_s * samples
        stages = with_chosen(_stages(subject, version, seconds), together.chosen)
    ceilings |= input_ceilings(stages, _samples(measured), machine.cpus)
    computing = shares.breakdown["step"] >= _COMPUTING
    precisions = in_other_precision(
        subject, version, journal, known=known, computing=computing, block_s=seconds.block
    )
    # Of an accelerator's kernels this host's processor knows only how they were started.
    told = computing and not (machine.devices or _is_eager(subject, version))
    if known is not None:
        once = carried(known)
    else:
        step_s = measured.step_s.median
        how = {"computing": computing, "told": told}
        once = look_once(subject, version, journal, step_s=step_s, block_s=seconds.block, **how)
    ceilings |= disk_ceiling(once["from_disk"], stages, _samples(measured))
    moved = on_device(version.step)
    if moved is not None:
        stages = left_to_the_step(stages, moved.expects)
        once["transfer"] = subject.transfer(version)
    once["new_shapes"] = _compiled_for(once["new_shapes"], version.step)
    found = WorkloadDiagnosis(
        workload=replace(
            _of_steps(subject.seen(), version.times),
            eager_step=_is_eager(subject, version),
            pipeline=digest,
            **loader,
            default_rewrites=default_rewrites(version.pipeline),
        ),
        measurement=measured,
        ceilings=ceilings,
        headroom=max(1.0, shares.consumer),
        breakdown=shares.breakdown,
        intervals=shares.intervals,
        tracing=shares.tracing,
        untraced_s=subject.untraced_s(seconds.block) if shares.tracing > _TRIFLE else None,
        consumer_cpu_s=shares.consumer_cpu_s,
        stages=stages,
        notes=tuple(
            dict.fromkeys(
                [*subject.notes, *_notes(subject.workload, measured, stages), *side_effects()]
            )
        ),
        memory_available_bytes=available_memory(),
        bfloat16=native_bfloat16(),
        float16=native_float16(),
        deterministic=is_op_determinism_enabled(),
        start=subject.start,
        first_step_s=known.first_step_s if known else max(shares.traced_s, subject.first_step_s),
        unrolled=known.unrolled if known else subject.unrolled(shares.traced_s),
        **precisions,
        **once,
    )
    return judge(with_compiling(found), machine)


def with_disk(found: WorkloadDiagnosis, folder: str, journal: Journal) -> WorkloadDiagnosis:
    """The same, with what is known of a folder for files where the user has named one."""
    if not folder:
        return found
    journal.write("phase", f"measuring how fast files are written and read in {folder}")
    return replace(found, disk=disk_at(folder))


def _between_epochs(measured: Measurement) -> Iterator[str]:
    """What no line of the user's is to blame for, where it is more than a trifle."""
    if measured.between_epochs is not None and measured.between_epochs > _TRIFLE:
        yield (
            f"{measured.between_epochs:.0%} of the time passes between epochs, where TensorFlow "
            "may wait for the thread that tunes a tf.data pipeline: see autotune_off"
        )


def _notes(work: Workload, measured: Measurement, stages: Sequence[Stage]) -> Iterator[str]:
    """What figures are to be read with."""
    yield from _between_epochs(measured)
    if tf.config.functions_run_eagerly():
        yield (
            "tf.config.run_functions_eagerly(True) is in force: every function runs op by op, and "
            "all figures are of that; take it out, and diagnose again"
        )
    there = next((stage for stage in stages if stage.kind == "cache"), None)
    ends = there is not None and there.length != ENDLESS
    if there is not None and ends and work.passes == 1 and not work.called_in_loop:
        at = f" at {there.at}" if there.at else ""
        yield (
            f"figures are of epochs that read the cache{at}; the "
            "script has but one, which fills it, and takes longer"
        )
    for endless in (s for s in stages if s.kind == "cache" and s.length == ENDLESS):
        at = f" at {endless.at}" if endless.at else ""
        yield (
            f"the cache{at} keeps what never ends: it takes more memory, or disk, at each step, "
            "and is never read again; put it below repeat()"
        )


def _is_eager(subject: Subject, version: Version) -> bool:
    return subject.workload.eager_step and not is_graph(version.step)


def _loader(subject: Subject, version: Version) -> dict[str, Any]:
    """How a version reads its Python loader, in the fields of a workload."""
    workers = subject.workload.loader_workers
    for edit in version.loader:
        workers = edit.workers if isinstance(edit, LoaderWorkers) else workers
        workers = edit.processes if isinstance(edit, LoaderProcesses) else workers
    kept = any(isinstance(edit, LoaderCache) for edit in version.loader)
    return {"loader_workers": workers, "loader_kept": kept}


def _input(known: Workload) -> tuple[object, ...]:
    return known.pipeline, known.loader_workers, known.loader_kept


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


def _stages(subject: Subject, version: Version, seconds: _Seconds) -> tuple[Stage, ...]:
    if version.pipeline is None:
        return subject.loader_stages(version)
    batch_size = (subject.workload.batch_size or 0) * version.times or None
    return measure_stages(version.pipeline, batch_size=batch_size, budget_s=seconds.stages)


def _host_ceiling(measured: Measurement, machine: Machine) -> float:
    """samples/s if every core were busy all the time with what a step costs now."""
    if measured.cpu_s_per_step <= 0:
        return measured.samples_per_s
    return _samples(measured) * machine.cpus / measured.cpu_s_per_step


def _samples(measured: Measurement) -> float:
    """Of a step."""
    return measured.samples_per_s * measured.step_s.median


def _compiled_for(new: NewShapes | None, edits: tuple[StepEdit, ...]) -> NewShapes | None:
    """Shapes for which a step under these edits is still compiled anew."""
    if new is None or any(isinstance(edit, JitCompileOff) for edit in edits):
        return None
    filled = next((edit for edit in edits if isinstance(edit, FillsUp)), None)
    return new.filled_up(filled.multiple) if filled is not None and new.padded else new


def with_epoch_hooks(
    subject: Subject, found: WorkloadDiagnosis, machine: Machine
) -> WorkloadDiagnosis:
    """With what callbacks take before and after an epoch: the last that is measured of it."""
    with suppress(Exception):  # callbacks want anything
        costs = subject.epoch_hooks()
        return judge(replace(found, callbacks=(*found.callbacks, *costs)), machine)
    return found
