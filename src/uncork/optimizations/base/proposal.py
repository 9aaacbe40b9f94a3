"""What an optimization answers: a proposal with its prediction, or a reason to leave it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from uncork.core.base.machine import Machine
from uncork.core.base.record import Record
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy, StageName
from uncork.core.edits.edit import Edit, Guarantee

# Ratio. Below this predicted gain a trial costs the user more time than it could give back.
MIN_PREDICTED_SPEEDUP = 1.05


class Proposal(Record, frozen=True, kw_only=True):
    """Edits to try.

    Attributes:
        edits: Applied in order.
        predicted: Expected speed-up; None when nothing measured so far tells.
        at: ``file.py:line`` it concerns.
        rationale: What it is expected to take away.
        source_edit: The same by hand.
        prerequisite: Name of a step further along the road that is to be tried before this one.
    """

    edits: tuple[Edit, ...]
    predicted: float | None
    at: str | None
    rationale: str
    source_edit: str = ""
    prerequisite: str = ""


class Skipped(Record, frozen=True, kw_only=True):
    """Nothing to try here, and why."""

    reason: str


class Optimization(ABC):
    """One step of the road. Pure: sees records, returns edits as data, touches nothing.

    Attributes:
        name: Of its file, its test and its page.
        stage: Where on the road it stands.
        guarantee: What it promises about the training.
        fallback_guarantee: The weaker promise it is also worth keeping for, where the stricter one
            cannot be proved on this model; None when there is none.
        needs_own_process: It is tried in a process of its own, behind all other steps.
    """

    name: ClassVar[str]
    stage: ClassVar[StageName]
    guarantee: ClassVar[Guarantee]
    fallback_guarantee: ClassVar[Guarantee | None] = None
    needs_own_process: ClassVar[bool] = False

    @abstractmethod
    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """What to try on this workload, or why not."""


def low_gain_refusal(predicted: float) -> Skipped:
    """The answer when the figures say that there is little to win."""
    return Skipped(reason=f"predicted gain {predicted:.2f}x is below {MIN_PREDICTED_SPEEDUP}x")
