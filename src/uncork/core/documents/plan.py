"""The plan: what was tried, what was kept, what proves it. The record behind ``plan.json``."""

from __future__ import annotations

from typing import Final, Literal

from uncork.core.base.machine import Machine
from uncork.core.base.measurement import Measurement, Verdict
from uncork.core.base.record import Record
from uncork.core.base.script import script_words
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.edits.edit import (
    AsyncCheckpoint,
    Edit,
    Guarantee,
    IntraOpThreads,
    KeepFreedMemory,
    KerasBackend,
    LoaderEdit,
    ProcessEdit,
    ValidationInput,
    find_loosest_guarantee,
    select_validation_edits,
)
from uncork.core.edits.pipeline import PipelineEdit
from uncork.core.edits.step import (
    CodeSpecificEdit,
    MicroBatches,
    RecomputeActivations,
    StepEdit,
    find_batch_multiplier,
)

# Raised whenever an older plan would be misread.
PLAN_SCHEMA: Final = 10

StageName = Literal["machine", "input", "host", "compile", "precision", "batch", "scale", "model"]
OutcomeName = Literal["kept", "skipped", "rejected", "failed"]

# Read by TensorFlow when it begins.
INTRA_OP_THREADS_VARIABLE: Final = "TF_NUM_INTRAOP_THREADS"
# Why a step was skipped that may have been worth trying.
NO_TIME_REASON: Final = (
    "the time budget is used up, except for the time to confirm a result; try a longer --budget"
)
# A note.
LOOP_ENDED_NOTE: Final = (
    "the loop ended before Uncork could try all optimizations: let it run longer, with more steps "
    "or epochs"
)


class Ratio(Record, frozen=True, kw_only=True):
    """A speed-up with its interval."""

    ratio: float
    low: float
    high: float | None


class Proof(Record, frozen=True, kw_only=True):
    """What was checked, whether it held, and the figures.

    Attributes:
        kind: The guarantee that was put to the test.
        passed: Never true by default.
        detail: How many elements or steps were compared, and what came out.
        is_disproved: The training was seen to go otherwise; where it did not hold and this is not
            set, nothing could be shown.
    """

    kind: Guarantee
    passed: bool
    detail: str
    is_disproved: bool = False


class PlanStep(Record, frozen=True, kw_only=True):
    """One optimization and its outcome.

    Attributes:
        name: Of the optimization: its file, its documentation page.
        stage: Its place in the order of optimizations.
        outcome: ``kept``, ``skipped`` (not tried), ``rejected`` (tried, not kept) or ``failed``.
        reason: One sentence.
        guarantee: What it promises; None when it was skipped before that mattered.
        predicted: Speed-up expected before trying.
        measured: Speed-up against the state before this step, interleaved.
        proof: None when it was never tried.
        edits: Empty unless kept.
        samples_per_s: Training speed with this step in force; None when it was not kept.
        at: ``file.py:line`` it concerns.
        source_edit: The same in the user's code, as a sentence or snippet; ``""`` where none is.
        is_for_validation: It edits what feeds the validation: its speed-ups are of an epoch
            together with its part of a validation, which ``samples_per_s`` does not contain.
        is_for_checkpoints: The same of how checkpoints are written: they are of steps and the saves
            among them.
        graph_digests: Digests of what the step of a loop was traced to with this one in force.
    """

    name: str
    stage: StageName
    outcome: OutcomeName
    reason: str
    guarantee: Guarantee | None = None
    predicted: float | None = None
    measured: Ratio | None = None
    proof: Proof | None = None
    edits: tuple[Edit, ...] = ()
    samples_per_s: float | None = None
    at: str | None = None
    source_edit: str = ""
    is_for_validation: bool = False
    is_for_checkpoints: bool = False
    graph_digests: tuple[str, ...] = ()

    @property
    def is_secondary(self) -> bool:
        """It leaves the training's steps as they are."""
        return self.is_for_validation or self.is_for_checkpoints

    @property
    def has_own_process(self) -> bool:
        """It was measured in a process of its own, not interleaved with what it is held against."""
        return any(isinstance(edit, ProcessEdit) for edit in self.edits)


class Speedup(Record, frozen=True, kw_only=True):
    """Plan over baseline, each measured in fresh processes, in turn."""

    ratio: float
    low: float
    high: float | None
    verdict: Verdict
    n_processes: int


class TimeToFinish(Record, frozen=True, kw_only=True):
    """Seconds of the whole training call: start-up, first epoch, later epochs.

    So are validations, where they take a good part of it and could be timed. The first epoch fills
    caches, so it is counted apart; the rest is extrapolated from the steady speed when the training
    is longer than what was run (``is_extrapolated``).
    """

    baseline_s: float
    tuned_s: float
    is_extrapolated: bool


class ValidationTimes(Record, frozen=True, kw_only=True):
    """What a validation takes, as written and with the plan, its caches filled.

    Attributes:
        baseline_s: Seconds of one, median of the processes.
        tuned_s: The same with the plan.
        speedup: Of their speeds, process by process.
    """

    baseline_s: float
    tuned_s: float
    speedup: Speedup


class Policy(Record, frozen=True, kw_only=True):
    """What ``tune`` was allowed to do.

    Attributes:
        loosest_guarantee: The weakest guarantee accepted; ``training`` only where the user consents
            to it.
        memory_share: Of the memory still available, for caches.
        budget_s: For the whole tuning: the trials take what the final confirmation leaves.
        disk_cache_folder: A folder where files may be kept while something runs; ``""`` for none.
    """

    loosest_guarantee: Guarantee = "precision"
    memory_share: float = 0.5
    budget_s: float = 270.0
    disk_cache_folder: str = ""


class Plan(Record, frozen=True, kw_only=True):
    """The content of ``plan.json``.

    ``digest`` covers everything else, so that a hand-edited plan is noticed: what was proved is
    what is run. ``ceiling_share`` is the tuned speed over that of the tuned step on a resident
    batch, measured in turn in the confirming processes; None until then. ``validation_times`` is
    set where the plan edits what feeds it.

    Attributes:
        script: As the user typed it; the file of a module. ``""`` for a plan from Python.
        script_digest: Digest of its text.
        module: Name of the module that was run with ``-m``; ``""`` for a script.
        arguments: The script's own, one by one.
        working_folder: Absolute path of the folder that the command was typed in.
    """

    schema: int = PLAN_SCHEMA
    script: str
    script_digest: str
    module: str = ""
    arguments: tuple[str, ...] = ()
    working_folder: str = ""
    machine: Machine
    policy: Policy
    before: WorkloadDiagnosis
    after: WorkloadDiagnosis | None = None
    baseline: Measurement
    tuned: Measurement
    speedup: Speedup
    ceiling_share: float | None = None
    time_to_finish: TimeToFinish | None = None
    validation_times: ValidationTimes | None = None
    tuning_cost_s: float
    steps: tuple[PlanStep, ...]
    notes: tuple[str, ...] = ()
    digest: str = ""

    @property
    def script_words(self) -> tuple[str, ...]:
        """What follows ``python`` to run the script as it was tuned."""
        return script_words(self.script, self.module, self.arguments)

    @property
    def accepted_steps(self) -> tuple[PlanStep, ...]:
        """Steps in force."""
        return tuple(step for step in self.steps if step.outcome == "kept")

    @property
    def steps_needed_for_memory(self) -> tuple[PlanStep, ...]:
        """Those of them without which the training does not fit into memory."""
        fitting = MicroBatches | RecomputeActivations
        return tuple(s for s in self.accepted_steps if any(isinstance(e, fitting) for e in s.edits))

    @property
    def baseline_description(self) -> str:
        """What it is compared with: the training as written, or as it fits into memory."""
        if not self.steps_needed_for_memory:
            return "unmodified"
        in_parts = any(
            isinstance(e, MicroBatches) for s in self.steps_needed_for_memory for e in s.edits
        )
        return "with micro-batches" if in_parts else "with recomputed activations"

    @property
    def edits(self) -> tuple[Edit, ...]:
        """All edits in force, in the order they must be applied."""
        return tuple(edit for step in self.accepted_steps for edit in step.edits)

    @property
    def graph_digests(self) -> tuple[str, ...]:
        """What a loop's step may be traced to under the plan; empty where that is not compared."""
        return next(
            (step.graph_digests for step in reversed(self.accepted_steps) if step.graph_digests), ()
        )

    @property
    def pipeline_edits(self) -> tuple[PipelineEdit, ...]:
        """Edits of the input pipeline."""
        return tuple(e for e in self.edits if isinstance(e, PipelineEdit))

    @property
    def loader_edits(self) -> tuple[LoaderEdit, ...]:
        """Edits of a loader in Python."""
        return tuple(e for e in self.edits if isinstance(e, LoaderEdit))

    @property
    def step_edits(self) -> tuple[StepEdit, ...]:
        """Edits of the training step."""
        return tuple(e for e in self.edits if isinstance(e, StepEdit))

    @property
    def batch_multiplier(self) -> int:
        """How many of the script's batches a planned step trains on."""
        return find_batch_multiplier(self.step_edits)

    @property
    def backend(self) -> KerasBackend | None:
        """Keras's backend, where it is to be another one."""
        return next((e for e in self.edits if isinstance(e, KerasBackend)), None)

    @property
    def intra_op_threads(self) -> int:
        """Threads for the work within one kernel; 0 where TensorFlow chooses."""
        return next((e.threads for e in self.edits if isinstance(e, IntraOpThreads)), 0)

    @property
    def keeps_freed_memory(self) -> bool:
        """The script's process keeps what it frees."""
        return any(isinstance(e, KeepFreedMemory) for e in self.edits)

    @property
    def environment(self) -> dict[str, str]:
        """What the script's process is started with."""
        found: dict[str, str] = {"KERAS_BACKEND": self.backend.backend} if self.backend else {}
        if self.intra_op_threads:
            found[INTRA_OP_THREADS_VARIABLE] = str(self.intra_op_threads)
        return found

    @property
    def validation_edits(self) -> tuple[PipelineEdit, ...]:
        """Edits of the pipeline that feeds the validation."""
        return select_validation_edits(self.edits)

    @property
    def validation_pipeline_digest(self) -> str:
        """Digest of the pipeline that they are for; ``""`` where there are none."""
        found = (edit.expected_digest for edit in self.edits if isinstance(edit, ValidationInput))
        return next(found, "")

    @property
    def is_code_specific(self) -> bool:
        """An edit is for code of the script's, known by its digest as it was while tuned.

        Of a model, too, whose ``train_step`` may hold a loop of its own.
        """
        return any(
            getattr(e, "code_digest", "") or isinstance(e, CodeSpecificEdit) for e in self.edits
        )

    @property
    def checkpoint_edits(self) -> tuple[AsyncCheckpoint, ...]:
        """Edits of how checkpoints are written."""
        return tuple(e for e in self.edits if isinstance(e, AsyncCheckpoint))

    @property
    def guarantee(self) -> Guarantee:
        """The loosest promise among the kept steps."""
        return find_loosest_guarantee(
            *(step.guarantee for step in self.accepted_steps if step.guarantee)
        )

    @property
    def ceiling_samples_per_s(self) -> float:
        """samples/s that the tuned training cannot exceed: the consumer's ceiling, after tuning."""
        if self.backend:  # its step was looked at on the other one
            return 0.0
        if self.ceiling_share:
            return self.tuned.samples_per_s / self.ceiling_share
        if self.intra_op_threads:  # likewise
            return 0.0
        return (self.after or self.before).ceilings.get("consumer", 0.0)
