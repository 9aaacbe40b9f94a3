"""Where a tuning stands: what is in force, how long is left, and what would be tried next."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from uncork.core.base.journal import Journal
from uncork.core.base.machine import Machine
from uncork.core.base.record import replace
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import NO_TIME_REASON, Policy
from uncork.core.edits.step import StepEdit
from uncork.engine.subject import time_budget as seconds
from uncork.engine.subject.subject import Subject
from uncork.engine.tune.guarantee_policy import GuaranteePolicy
from uncork.optimizations.base.proposal import (
    Context,
    Optimization,
    Proposal,
    Skipped,
    optimistic_gain,
    predicted_gain,
)
from uncork.optimizations.order import OPTIMIZATIONS
from uncork.training.variant import Variant


@dataclass
class TuningState:
    """What is in force, and what of the road is proposed on it in the time that is left.

    Attributes:
        subject: What is trained.
        before: Its diagnosis as the user wrote it.
        machine: Where.
        policy: What may be done.
        journal: Told of everything as it happens.
        optimizations: What is tried, in this order.
        start_time_s: By :func:`time.monotonic`, when the budget began to run.
        reserved_s: Seconds of the budget kept back for confirming the result.
        can_start_processes: What takes a process of its own will be tried behind the road.
    """

    subject: Subject
    before: WorkloadDiagnosis
    machine: Machine
    policy: Policy
    journal: Journal
    optimizations: Sequence[Optimization] = OPTIMIZATIONS
    start_time_s: float = field(default_factory=time.monotonic)
    reserved_s: float | None = None
    can_start_processes: bool = False

    def __post_init__(self) -> None:
        """Start from the original."""
        self.variant: Variant = self.subject.original
        self.diagnosis = self.before
        self._looking_again = False
        self._promises = GuaranteePolicy(self.subject, self.policy)

    @property
    def context(self) -> Context:
        """What optimizations see now."""
        return Context(diagnosis=self.diagnosis, machine=self.machine, policy=self.policy)

    def propose(self, optimization: Optimization) -> Proposal | Skipped:
        """What an optimization would do now, if it is allowed."""
        skipped = self._not_allowed(optimization)
        answer = optimization.propose(self.context)
        if isinstance(answer, Skipped):
            # What would not be proposed is not missed for want of time.
            return skipped if skipped and skipped.reason != NO_TIME_REASON else answer
        if skipped and skipped.reason == NO_TIME_REASON and self._is_short_trial(answer):
            skipped = None
        return replace(skipped, predicted=optimistic_gain(answer)) if skipped else answer

    def _is_short_trial(self, proposal: Proposal) -> bool:
        """An edit of the step of unknown effect is tried on a resident batch first."""
        of_step = all(isinstance(edit, StepEdit) for edit in proposal.edits)
        is_unknown = of_step and not proposal.predicted
        return is_unknown and self.time_left_s >= seconds.RESIDENT_TRIAL_S

    def _postponed(self, optimization: Optimization, proposal: Proposal) -> Skipped | None:
        """Where time is short, it is kept for what promises more further along the road.

        A second look comes back to what was postponed, if there is time left then.
        """
        worth = {o.name: predicted_gain(p) for o, p in self._further(optimization)}
        more = [name for name, gain in worth.items() if gain > predicted_gain(proposal)]
        if not more or self.time_left_s >= (1 + len(more)) * (
            seconds.TRIAL_S + seconds.AFTER_GAIN_S
        ):
            return None
        best = max(more, key=worth.__getitem__)
        reason = f"the remaining time is reserved for {best}, which promises more"
        return Skipped(reason=reason, predicted=optimistic_gain(proposal))

    def _further(
        self, optimization: Optimization
    ) -> Iterator[tuple[Optimization, Proposal | Skipped]]:
        """What is proposed further along the road, as things stand."""
        for further in self.optimizations[self.optimizations.index(optimization) + 1 :]:
            if further.needs_own_process:
                continue
            yield further, self.propose(further)

    def _not_allowed(self, optimization: Optimization) -> Skipped | None:
        if not self._promises.allows(optimization.guarantee):
            return Skipped(
                reason=(
                    f"promises {optimization.guarantee}; the policy allows "
                    f"{self.policy.loosest_guarantee}"
                )
            )
        ended = self.subject.end_of_data_reason()
        if ended:
            return Skipped(reason=ended)
        return Skipped(reason=NO_TIME_REASON) if self.time_left_s < seconds.TRIAL_S else None

    @property
    def time_left_s(self) -> float:
        """Seconds of the budget that trials may still take."""
        budget_s, reserved_s = self.policy.budget_s, self.reserved_s
        if reserved_s is None:
            reserved_s = seconds.RESERVED_SHARE * budget_s
        if self._looking_again and self.variant is self.subject.original:
            reserved_s *= (
                seconds.RETRY_RESERVED_SHARE
            )  # with nothing kept there is nothing to confirm
        return self.start_time_s + budget_s - reserved_s - self._spared_s() - time.monotonic()

    def _spared_s(self) -> float:
        """While what was unclear is looked at again, for what comes behind that."""
        if not self._looking_again:
            return 0.0
        training_s = (
            seconds.LARGER_BATCHES_S
            + seconds.TRIAL_S
            + seconds.AFTER_GAIN_S
            + seconds.TRAINING_PROOF_S
        )
        spared_s = training_s if self._promises.allows("training") else 0.0
        return spared_s + seconds.PROCESS_TRIAL_S * len(self.process_optimizations())

    def process_optimizations(self) -> list[str]:
        """Names of what is proposed that takes a process of its own; nothing where none can be."""
        if not self.can_start_processes:
            return []
        allowed = [
            o
            for o in self.optimizations
            if o.needs_own_process and self._promises.allows(o.guarantee)
        ]
        answers = {o.name: o.propose(self.context) for o in allowed}
        return [name for name, answer in answers.items() if isinstance(answer, Proposal)]

    def _before(self, optimization: Optimization) -> Optimization | None:
        """Of what is further along the road, the step that it had better come after."""
        proposal = self.propose(optimization)
        if isinstance(proposal, Skipped):
            return None
        return next((o for o in self.optimizations if o.name == proposal.prerequisite), None)

    def _better_s(self, optimization: Optimization, proposal: Proposal) -> float:
        """Seconds for what is further along the road and promises more."""
        return seconds.needed_s(
            (p for _, p in self._further(optimization)), predicted_gain(proposal)
        )
