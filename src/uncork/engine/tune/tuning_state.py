"""Where a tuning stands: what is in force, how long is left, and what would be tried next."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from uncork.core.base.journal import Journal
from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import NO_TIME, Policy
from uncork.engine.subject import time_budget as seconds
from uncork.engine.subject.subject import Subject
from uncork.engine.tune.guarantee_policy import Promises
from uncork.optimizations.base.proposal import WORTH_TRYING, Optimization, Proposal, Skipped
from uncork.optimizations.order import ROAD
from uncork.training.variant import Version


@dataclass
class Standing:
    """What is in force, and what of the road is proposed on it in the time that is left.

    Attributes:
        subject: What is trained.
        before: Its diagnosis as the user wrote it.
        machine: Where.
        policy: What may be done.
        journal: Told of everything as it happens.
        road: What is tried, in this order.
        started: By :func:`time.monotonic`, when the budget began to run.
        reserved_s: Seconds of the budget kept back for confirming the result.
        has_children: What takes a process of its own will be tried behind the road.
    """

    subject: Subject
    before: WorkloadDiagnosis
    machine: Machine
    policy: Policy
    journal: Journal
    road: Sequence[Optimization] = ROAD
    started: float = field(default_factory=time.monotonic)
    reserved_s: float | None = None
    has_children: bool = False

    def __post_init__(self) -> None:
        """Start from the original."""
        self.version: Version = self.subject.original
        self.now = self.before
        self._looking_again = False
        self._promises = Promises(self.subject, self.policy)

    def proposed(self, optimization: Optimization) -> Proposal | Skipped:
        """What an optimization would do now, if it is allowed."""
        skipped = self._not_allowed(optimization)
        if skipped and skipped.reason != NO_TIME:
            return skipped
        found = optimization.propose(self.now, self.machine, self.policy)
        # What would not be proposed is not missed for want of time.
        return found if isinstance(found, Skipped) else skipped or found

    def _postponed(self, optimization: Optimization, proposal: Proposal) -> Skipped | None:
        """Where time is short, it is kept for what promises more further along the road.

        A second look comes back to what was postponed, if there is time left then.
        """
        worth = {o.name: promised(p) for o, p in self._further(optimization)}
        more = [name for name, gain in worth.items() if gain > promised(proposal)]
        if not more or self.left_s >= (1 + len(more)) * (seconds.PAIRS_S + seconds.TAIL_S):
            return None
        best = max(more, key=worth.__getitem__)
        return Skipped(reason=f"the time left is kept for {best}, which promises more")

    def _further(
        self, optimization: Optimization
    ) -> Iterator[tuple[Optimization, Proposal | Skipped]]:
        """What is proposed further along the road, as things stand."""
        for further in self.road[self.road.index(optimization) + 1 :]:
            if further.in_children:
                continue
            yield further, self.proposed(further)

    def _not_allowed(self, optimization: Optimization) -> Skipped | None:
        if not self._promises.allows(optimization.guarantee):
            return Skipped(
                reason=f"promises {optimization.guarantee}; the policy allows {self.policy.loosest}"
            )
        ended = self.subject.out_of_data()
        if ended:
            return Skipped(reason=ended)
        return Skipped(reason=NO_TIME) if self.left_s < seconds.PAIRS_S else None

    @property
    def left_s(self) -> float:
        """Seconds of the budget that trials may still take."""
        budget_s, reserved_s = self.policy.budget_s, self.reserved_s
        if reserved_s is None:
            reserved_s = seconds.RESERVED_SHARE * budget_s
        if self._looking_again and self.version is self.subject.original:
            reserved_s *= seconds.RISKED_SHARE  # with nothing kept there is nothing to confirm
        return self.started + budget_s - reserved_s - self._spared_s() - time.monotonic()

    def _spared_s(self) -> float:
        """While what was unclear is looked at again, for what comes behind that."""
        if not self._looking_again:
            return 0.0
        training_s = seconds.BATCHES_S + seconds.PAIRS_S + seconds.TAIL_S + seconds.TRAINING_S
        spared_s = training_s if self._promises.allows("training") else 0.0
        return spared_s + seconds.ELSEWHERE_S * len(self.elsewhere())

    def elsewhere(self) -> list[str]:
        """Names of what is proposed that takes a process of its own; nothing where none can be."""
        if not self.has_children:
            return []
        allowed = [o for o in self.road if o.in_children and self._promises.allows(o.guarantee)]
        answers = {o.name: o.propose(self.now, self.machine, self.policy) for o in allowed}
        return [name for name, answer in answers.items() if isinstance(answer, Proposal)]

    def _before(self, optimization: Optimization) -> Optimization | None:
        """Of what is further along the road, the step that it had better come after."""
        proposal = self.proposed(optimization)
        if isinstance(proposal, Skipped):
            return None
        return next((o for o in self.road if o.name == proposal.first), None)

    def _better_s(self, optimization: Optimization, proposal: Proposal) -> float:
        """Seconds for what is further along the road and promises more."""
        return seconds.needed_s((p for _, p in self._further(optimization)), promised(proposal))


def promised(proposal: Proposal | Skipped) -> float:
    """How many times as fast; 1 where nothing is said."""
    return 1.0 if isinstance(proposal, Skipped) else proposal.predicted or 1.0


def hoped(proposal: Proposal | Skipped) -> float:
    """The same; of what nothing can be told before it is tried, the least worth a trial."""
    unknown = isinstance(proposal, Proposal) and proposal.predicted is None
    return WORTH_TRYING if unknown else promised(proposal)
