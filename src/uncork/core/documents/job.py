"""What the parent asks of a child process: one JSON file, no code."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from uncork.core.base.machine import Machine
from uncork.core.base.measurement import Measurement
from uncork.core.base.record import Record
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy, Proof, Step
from uncork.core.documents.workload import Workload

# Of the folder beside the result with what a child's script has overwritten.
KEPT: Final = "kept"
# There, too: the exit code, once all that a child has to say has been written.
ENDED: Final = "ended"
# How long a fresh process waits for its first epoch to end, whatever it is timed for.
FIRST_EPOCH_S: Final = 25.0

Mode = Literal["diagnose", "tune", "confirm", "list", "backend", "process", "check"]


class Job(Record, frozen=True, kw_only=True):
    """One child's task.

    Attributes:
        mode: ``diagnose`` and ``tune`` stop the script after the work; ``confirm`` measures one
            version in a fresh process; ``check`` runs one for a moment, and says what it trains;
        ``list`` cuts every training call short and names it;
            ``backend`` tries a plan on another backend of Keras's, ``process`` in one
            that was started otherwise.
        training: Index of the training call to act on; None for the first that does real work.
        in_loop: It is a ``fit`` that is called for a few steps at a time: many calls are acted on.
        plan: Path of a plan to put in force, None for the script as it is.
        policy: What ``tune`` may do.
        timeline: A folder of the user's, where ``diagnose`` keeps a trace of some steps.
        validates: ``confirm`` times a validation as well.
        first_epoch_s: How long it waits for the first epoch to end.
        whole: ``confirm`` fills caches with all data, however long that takes.
        environment: Variables that the process is started with, beside its own.
        hand_over: Path of what ``tune`` leaves for these two: the state that a training begins
            with, some batches, and what they lead to.
        parts: Of a training that does not fit into memory: ``tune`` lets its step go through each
            batch in so many parts, or more, or run the model again in as many segments; 0 where
            nothing is known of that.
        out_of_memory: What such a training ended with.
        source: Path of a text that is run in the place of the script's, as if it lay there.
        journal: Path for live events, None for silence.
        result: Path of the :class:`Result` to write.
    """

    mode: Mode
    training: int | None = None
    in_loop: bool = False
    plan: str | None = None
    policy: Policy = Policy()
    timeline: str | None = None
    validates: bool = False
    first_epoch_s: float = FIRST_EPOCH_S
    whole: bool = False
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    hand_over: str | None = None
    parts: int = 0
    out_of_memory: str = ""
    source: str | None = None
    journal: str | None = None
    result: str | None = None


class Confirmation(Record, frozen=True, kw_only=True):
    """One version in one fresh process.

    Attributes:
        measurement: Steady state, from the second epoch on where there is one.
        of_ceiling: Its speed over that of its step on a resident batch, measured in turn; None
            where that was not asked.
        first_epoch_s: Compilation and filling of caches included; None when it was not run whole.
        filling_s: Of caches, as far as a part of them tells; None where it did not come to that.
        validation_s: Of one validation, its caches filled; None where there is none to be timed.
    """

    measurement: Measurement
    of_ceiling: float | None = None
    first_epoch_s: float | None
    filling_s: float | None = None
    validation_s: float | None = None


class ProcessTrial(Record, frozen=True, kw_only=True):
    """A training with something else beneath it, in a process of its own.

    Attributes:
        measurement: Its steady state.
        proof: What it makes of the state and the batches that were handed over.
        peak_bytes: The most memory that its process took.
    """

    measurement: Measurement
    proof: Proof
    peak_bytes: int = 0


class Result(Record, frozen=True, kw_only=True):
    """What a child hands back. Which fields are set depends on the job's mode.

    Attributes:
        overhead_share: Part of the measured time spent in Uncork's own code.
        handed_over: Everything is there for ``backend`` and ``process``.
        elsewhere: What came of one of these.
        trained: What a version trains, with what its edits make of it, for ``check``.
        out_of_memory: What the training as written ended with; ``""`` where it fits.
        held_back: Saves by the script that were not carried out, e.g. ``Model.save x3``.
        made: New files of the script's, made of weights that trials have moved.
        put_back: Files that it overwrote, and that are as they were.
        lost: Files that it overwrote, and that are not.
        interrupted: By the user, or the process was killed: only what was found so far is here.
        failed: The script raised before the work was done: likewise.
    """

    machine: Machine
    reached: tuple[Workload, ...] = ()
    before: WorkloadDiagnosis | None = None
    after: WorkloadDiagnosis | None = None
    steps: tuple[Step, ...] = ()
    confirmation: Confirmation | None = None
    handed_over: bool = False
    elsewhere: ProcessTrial | None = None
    trained: Workload | None = None
    overhead_share: float = 0.0
    out_of_memory: str = ""
    held_back: tuple[str, ...] = ()
    made: tuple[str, ...] = ()
    put_back: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    interrupted: bool = False
    failed: bool = False
    notes: tuple[str, ...] = ()
