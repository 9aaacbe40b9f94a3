"""What an optimization answers: a proposal with its prediction, or a reason to leave it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from uncork.core.diagnosis import WorkloadDiagnosis
from uncork.core.edit import Edit, Guarantee
from uncork.core.machine import Machine
from uncork.core.plan import Policy, StageName
from uncork.core.record import Record

# Ratio. Below this predicted gain a trial costs the user more time than it could give back.
WORTH_TRYING = 1.05


class Proposal(Record, frozen=True, kw_only=True):
    """Edits to try.

    Attributes:
        edits: Applied in order.
        predicted: Expected speed-up; None when nothing measured so far tells.
        at: ``file.py:line`` it concerns.
        why: What it is expected to take away.
        source_edit: The same by hand.
    """

    edits: tuple[Edit, ...]
    predicted: float | None
    at: str | None
    why: str
    source_edit: str = ""


class Skipped(Record, frozen=True, kw_only=True):
    """Nothing to try here, and why."""

    reason: str


class Optimization(ABC):
    """One step of the road. Pure: sees records, returns edits as data, touches nothing.

    Attributes:
        name: Of its file, its test and its page.
        stage: Where on the road it stands.
        guarantee: What it promises about the training.
        at_worst: The weaker promise it is also worth keeping for, where the stricter one cannot be
            proved on this model; None when there is none.
    """

    name: ClassVar[str]
    stage: ClassVar[StageName]
    guarantee: ClassVar[Guarantee]
    at_worst: ClassVar[Guarantee | None] = None

    @abstractmethod
    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """What to try on this workload, or why not."""


def not_worth(predicted: float) -> Skipped:
    """The answer when the figures say that there is little to win."""
    return Skipped(reason=f"predicted gain {predicted:.2f}x is below {WORTH_TRYING}x")


def no_pipeline(diagnosis: WorkloadDiagnosis) -> Skipped | None:
    """Set when there is no tf.data pipeline to edit."""
    if diagnosis.workload.data != "tf.data":
        return Skipped(reason=f"the training is fed by {diagnosis.workload.data}, not by tf.data")
    if not diagnosis.stages:
        return Skipped(reason="nothing is known about the stages of the input pipeline")
    return None


def read_once(diagnosis: WorkloadDiagnosis) -> Skipped | None:
    """Set when what is kept of the data would not be read again."""
    if diagnosis.workload.epochs < 2:
        return Skipped(reason="one epoch only: nothing is read twice")
    if diagnosis.workload.data_made_anew:
        return Skipped(
            reason="the script makes its dataset anew for each pass, and what is kept is not "
            "read again: make it once, before the loop over epochs, and tune again"
        )
    return None


def no_step_edit(diagnosis: WorkloadDiagnosis) -> Skipped | None:
    """Set when the training step is not Keras's to change."""
    if diagnosis.workload.kind == "custom_loop":
        return Skipped(reason="the step of a custom loop is your own code")
    if diagnosis.workload.eager_step:
        return Skipped(reason="the model runs eagerly by choice (run_eagerly=True)")
    if diagnosis.workload.distributed:
        return Skipped(reason="not tried under a tf.distribute strategy yet")
    return None
