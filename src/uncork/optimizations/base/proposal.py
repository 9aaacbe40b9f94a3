"""The interface of an optimization: what it sees, and a proposal or a reason as its answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar, TypeAlias

from uncork.core.base.machine import Machine
from uncork.core.base.record import Record
from uncork.core.costmodel.attribution import attribute_costs
from uncork.core.costmodel.step_cost import StepCosts, predict_gain
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy, StageName
from uncork.core.documents.workload import Workload
from uncork.core.edits.edit import Edit, Guarantee
from uncork.core.evidence.stage import Stage

# Ratio. Below this predicted gain a trial costs the user more time than the edit could save.
MIN_PREDICTED_SPEEDUP = 1.05


class Context(Record, frozen=True, kw_only=True):
    """All that an optimization sees.

    Attributes:
        diagnosis: Of the training.
        machine: That trains.
        policy: What the user allows.
    """

    diagnosis: WorkloadDiagnosis
    machine: Machine
    policy: Policy

    @property
    def workload(self) -> Workload:
        """What is trained."""
        return self.diagnosis.workload

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Of the input pipeline."""
        return self.diagnosis.stages

    @property
    def pipeline_digest(self) -> str:
        """Of the input pipeline, as an edit expects it."""
        return self.workload.pipeline_digest

    @property
    def is_loop(self) -> bool:
        """Whether the script trains in a loop of its own, not by ``fit``."""
        return self.workload.kind == "custom_loop"

    @property
    def costs(self) -> StepCosts:
        """Of a training step, by the stages of its input."""
        return attribute_costs(self.diagnosis, self.machine.cpus)

    @property
    def memory_budget_bytes(self) -> float:
        """Bytes of memory that an edit may take."""
        return self.policy.memory_share * self.diagnosis.memory_available_bytes


# Returns why there is nothing to try; empty where the precondition holds.
Refusal: TypeAlias = Callable[[Context], str]


class Proposal(Record, frozen=True, kw_only=True):
    """Edits to try.

    Attributes:
        edits: Applied in order.
        predicted: Expected speed-up; None when no measurement predicts it.
        at: ``file.py:line`` that the edits change.
        rationale: Why they should save time.
        source_edit: The same by hand.
        prerequisite: Name of a later optimization that Uncork must try before this one.
    """

    edits: tuple[Edit, ...]
    predicted: float | None
    at: str | None
    rationale: str
    source_edit: str = ""
    prerequisite: str = ""


class Skipped(Record, frozen=True, kw_only=True):
    """Why an optimization has nothing to try, or is not tried.

    Attributes:
        reason: One sentence.
        predicted: Gain of the trial that was left out, at the most optimistic; None where there was
            nothing to try.
    """

    reason: str
    predicted: float | None = None


class Optimization(ABC):
    """One change that may make a training faster.

    It is pure: it reads records, returns edits as data and applies nothing.

    Attributes:
        name: Also of its file, its test and its page.
        stage: Part of the training that it changes.
        guarantee: What it guarantees about the training.
        fallback_guarantee: A weaker guarantee for which Uncork also accepts it, if the stricter one
            cannot be proved on this model; None when there is none.
        needs_own_process: Uncork tries it in a process of its own, after all others.
        preconditions: The base class checks them in this order before ``_propose``.
    """

    name: ClassVar[str]
    stage: ClassVar[StageName]
    guarantee: ClassVar[Guarantee]
    fallback_guarantee: ClassVar[Guarantee | None] = None
    needs_own_process: ClassVar[bool] = False
    preconditions: ClassVar[tuple[Refusal, ...]] = ()

    def propose(self, context: Context) -> Proposal | Skipped:
        """Return what to try on this workload, or why there is nothing to try."""
        refusal = first_refusal(self.preconditions, context)
        answer = Skipped(reason=refusal) if refusal else self._propose(context)
        if isinstance(answer, Skipped) or answer.predicted is None:
            return answer
        return answer if is_worth_trying(answer.predicted) else low_gain_refusal(answer.predicted)

    @abstractmethod
    def _propose(self, context: Context) -> Proposal | Skipped:
        """Return what to try if the preconditions hold, whatever its predicted gain."""


def first_refusal(refusals: Iterable[Refusal], context: Context) -> str:
    """The first reason that one of them gives; empty where none does."""
    return next((reason for refusal in refusals if (reason := refusal(context))), "")


def first_holding(reasons: Mapping[str, object]) -> str:
    """The first reason whose condition holds; empty where none does."""
    return next((reason for reason, holds in reasons.items() if holds), "")


def is_worth_trying(predicted: float) -> bool:
    """Whether a trial may give back the time that it takes."""
    return predicted >= MIN_PREDICTED_SPEEDUP


def low_gain_refusal(predicted: float) -> Skipped:
    """Refuse a proposal whose predicted gain is too small."""
    return Skipped(reason=f"predicted gain {predicted:.2f}x is below {MIN_PREDICTED_SPEEDUP}x")


def memory_refusal(needed_bytes: float, budget_bytes: float) -> Skipped:
    """Refuse an edit that would take more memory than the budget."""
    return Skipped(
        reason=f"needs {needed_bytes / 1e9:.1f} GB of memory, "
        f"the budget is {budget_bytes / 1e9:.1f} GB"
    )


def best_gain(
    costs: StepCosts, stages: Iterable[Stage], change: Callable[[Stage], StepCosts]
) -> tuple[Stage, float]:
    """Return the stage whose change is predicted to gain most, and its gain.

    Of stages with equal gains it is the first.
    """
    gains = [(stage, predict_gain(costs, change(stage))) for stage in stages]
    return max(gains, key=lambda pair: pair[1])


def predicted_gain(proposal: Proposal | Skipped) -> float:
    """How many times as fast; 1 where nothing is said."""
    return 1.0 if isinstance(proposal, Skipped) else proposal.predicted or 1.0


def optimistic_gain(proposal: Proposal | Skipped) -> float:
    """The same; of what nothing can be told before it is tried, the least worth a trial."""
    unknown = isinstance(proposal, Proposal) and proposal.predicted is None
    return MIN_PREDICTED_SPEEDUP if unknown else predicted_gain(proposal)
