"""What the parent asks of a child process: one JSON file, no code."""

from __future__ import annotations

from typing import Final

import msgspec

from uncork.core.base.machine import Machine
from uncork.core.base.measurement import Measurement
from uncork.core.base.record import Record
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import PlanStep, Policy, Proof
from uncork.core.documents.workload import Workload

# Of the folder beside the result with what a child's script has overwritten.
BACKUP_FOLDER_NAME: Final = "kept"
# Of the one with what it has saved.
SAVES_FOLDER_NAME: Final = "saves"
# There, too: the exit code, once all that a child has to say has been written.
EXIT_CODE_FILE_NAME: Final = "ended"
# And a file that tells a process that was started ahead to begin.
RELEASED_FILE_NAME: Final = "released"
# And one by which that process tells that it has imported TensorFlow.
IMPORTED_FILE_NAME: Final = "imported"
# How long a fresh process waits for its first epoch to end, whatever it is timed for.
MAX_FIRST_EPOCH_S: Final = 10.0


class Job(Record, tag_field="mode", frozen=True, kw_only=True):
    """One child's task: what all kinds of it have in common.

    Attributes:
        training_index: Index of the training call to act on; None for the first that does real
            work.
        is_fit_in_loop: It is a ``fit`` that is called for a few steps at a time: many calls are
            acted on.
        environment: Variables that the process is started with, beside its own.
        journal_path: Path for live events, None for silence.
        result_path: Path of the :class:`JobResult` to write.
        log_path: Path of the log of what TensorFlow's C++ code writes to standard error; None
            where that stays where it is.
        imports_first: The process imports TensorFlow before it runs the script, and waits until
            it is released; it reads its job again then.
    """

    training_index: int | None = None
    is_fit_in_loop: bool = False
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    journal_path: str | None = None
    result_path: str | None = None
    log_path: str | None = None
    imports_first: bool = False


class DiagnoseJob(Job, tag="diagnose", frozen=True, kw_only=True):
    """Measure a training, then stop the script.

    Attributes:
        policy: How long that may take.
        timeline_folder: A folder of the user's, where a trace of some steps is kept.
    """

    policy: Policy = Policy()
    timeline_folder: str | None = None


class TuneJob(Job, tag="tune", frozen=True, kw_only=True):
    """Try what makes a training faster, then stop the script.

    Attributes:
        policy: What may be done.
        is_budget_chosen: By the user; otherwise it follows the training's length.
        handover_path: Path of what is left for a :class:`HandoverJob`: the state that a training
            begins with, some batches, and what they lead to.
        min_parts: Of a training that does not fit into memory: its step goes through each batch in
            so many parts, or more, or runs the model again in as many segments; 0 where nothing is
            known of that.
        out_of_memory_error: What such a training ended with.
    """

    policy: Policy = Policy()
    is_budget_chosen: bool = True
    handover_path: str | None = None
    min_parts: int = 0
    out_of_memory_error: str = ""


class ListJob(Job, tag="list", frozen=True, kw_only=True):
    """Cut every training call short, and name it."""


class PlanJob(Job, frozen=True, kw_only=True):
    """Run one version of a training: the base of what does.

    Attributes:
        plan_path: Path of a plan to put in force, None for the script as it is.
    """

    plan_path: str | None = None


class ConfirmJob(PlanJob, tag="confirm", frozen=True, kw_only=True):
    """Measure one version in a fresh process.

    Attributes:
        has_validation: Time a validation as well.
        max_first_epoch_s: How long to wait for the first epoch to end.
        is_full_cache_fill: Fill caches with all data, however long that takes.
        has_ceiling: Of a version with a plan, measure its step on a resident batch as well.
    """

    has_validation: bool = False
    max_first_epoch_s: float = MAX_FIRST_EPOCH_S
    is_full_cache_fill: bool = False
    has_ceiling: bool = True


class CheckJob(PlanJob, tag="check", frozen=True, kw_only=True):
    """Run one version for a moment, and say what it trains.

    Attributes:
        source_path: Path of a text that is run in the place of the script's, as if it lay there.
        batch_count: Batches of a pass whose digests are taken at most; 0 for none.
    """

    source_path: str | None = None
    batch_count: int = 0


class HandoverJob(PlanJob, frozen=True, kw_only=True):
    """Try a plan in another process, and compare: the base of what does.

    Attributes:
        handover_path: Path of what a :class:`TuneJob` left to compare with.
    """

    handover_path: str


class BackendJob(HandoverJob, tag="backend", frozen=True, kw_only=True):
    """Try a plan on another backend of Keras's."""


class ProcessJob(HandoverJob, tag="process", frozen=True, kw_only=True):
    """Try a plan in a process that was started otherwise."""


_AnyJob = DiagnoseJob | TuneJob | ListJob | ConfirmJob | CheckJob | BackendJob | ProcessJob


def read_job(text: bytes) -> Job:
    """Parse and validate; raises :class:`msgspec.ValidationError` naming the bad field."""
    job: Job = msgspec.json.decode(text, type=_AnyJob)
    return job


class Confirmation(Record, frozen=True, kw_only=True):
    """One version in one fresh process.

    Attributes:
        measurement: Steady state, from the second epoch on where there is one.
        ceiling_share: Its speed over that of its step on a resident batch, measured in turn; None
            where that was not asked.
        first_epoch_s: Compilation and filling of caches included; None when it was not run whole.
        cache_fill_s: Of caches, as far as a part of them tells; None where it did not come to that.
        validation_s: Of one validation, its caches filled; None where there is none to be timed.
    """

    measurement: Measurement
    ceiling_share: float | None = None
    first_epoch_s: float | None
    cache_fill_s: float | None = None
    validation_s: float | None = None


class ProcessTrial(Record, frozen=True, kw_only=True):
    """A training with something else beneath it, in a process of its own.

    Attributes:
        measurement: Its steady state.
        proof: What it makes of the state and the batches that were handed over.
        peak_memory_bytes: The most memory that its process took.
    """

    measurement: Measurement
    proof: Proof
    peak_memory_bytes: int = 0


class JobResult(Record, frozen=True, kw_only=True):
    """What a child hands back. Which fields are set depends on the job's mode.

    Attributes:
        budget_s: Of a tuning, as it was in force.
        overhead_step_share: Part of the measured time spent in Uncork's own code.
        may_import_first: A process that imports TensorFlow before it runs the script imports what
            the script would.
        has_handover: Everything is there for ``backend`` and ``process``.
        process_trial: What came of one of these.
        trained_workload: What a version trains, with what its edits make of it, for ``check``.
        batch_digests: Of its batches in two passes, each draw with a seed, for ``check``.
        draw_seeds: Pairs of seeds of its shuffles and random ops, for ``check``.
        out_of_memory_error: What the training as written ended with; ``""`` where it fits.
        redirected_saves: Saves by the script that went to a folder of ours, e.g. ``Model.save x3``.
        suppressed_saves: Saves that were not carried out.
        created_files: New files of the script's, made of weights that trials have moved.
        restored_files: Files that it overwrote, and that are as they were.
        lost_files: Files that it overwrote, and that are not.
        is_interrupted: By the user, or the process was killed: only what was found so far is here.
        has_script_failed: The script raised before the work was done: likewise.
    """

    machine: Machine
    reached_workloads: tuple[Workload, ...] = ()
    before: WorkloadDiagnosis | None = None
    after: WorkloadDiagnosis | None = None
    steps: tuple[PlanStep, ...] = ()
    confirmation: Confirmation | None = None
    may_import_first: bool = False
    has_handover: bool = False
    process_trial: ProcessTrial | None = None
    trained_workload: Workload | None = None
    budget_s: float = 0.0
    batch_digests: tuple[str, ...] = ()
    draw_seeds: tuple[str, ...] = ()
    overhead_step_share: float = 0.0
    out_of_memory_error: str = ""
    redirected_saves: tuple[str, ...] = ()
    suppressed_saves: tuple[str, ...] = ()
    created_files: tuple[str, ...] = ()
    restored_files: tuple[str, ...] = ()
    lost_files: tuple[str, ...] = ()
    is_interrupted: bool = False
    has_script_failed: bool = False
    notes: tuple[str, ...] = ()
