"""Several steps of the road tried as one.

Where each gains a little, noise may hide every one of them, and a walk that keeps only what is
proved alone would keep none. What they gain together is larger and shows sooner.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import final

from uncork.core.base.record import replace
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import PlanStep
from uncork.core.edits.edit import Guarantee, find_loosest_guarantee
from uncork.core.edits.pipeline import PipelineEdit
from uncork.optimizations.base.proposal import (
    MIN_PREDICTED_SPEEDUP,
    Context,
    Optimization,
    Proposal,
    Skipped,
)
from uncork.training.variant import Variant


@dataclass(frozen=True)
class CombinedPart:
    """One step among several, proposed on what those before it leave."""

    optimization: Optimization
    proposal: Proposal


def is_inconclusive(step: PlanStep) -> bool:
    """Whether it was tried, promised a gain, and may have one: the noise does not rule it out."""
    if step.outcome != "rejected" or step.proof is not None or step.measured is None:
        return False
    high = step.measured.high
    promised = step.predicted or 1.0
    return promised >= MIN_PREDICTED_SPEEDUP and (high is None or high >= MIN_PREDICTED_SPEEDUP)


def edits_only_input(proposal: Proposal) -> bool:
    """Whether it changes the input pipeline and nothing else."""
    return all(isinstance(edit, PipelineEdit) for edit in proposal.edits)


def propose_parts(
    optimizations: Sequence[Optimization],
    tuning_state: tuple[Variant, WorkloadDiagnosis],
    propose: Callable[[Optimization, WorkloadDiagnosis], Proposal | Skipped],
    observe: Callable[[Variant, WorkloadDiagnosis], WorkloadDiagnosis],
) -> list[CombinedPart]:
    """Steps that edit the input, each as it is proposed on what those before it leave.

    Args:
        optimizations: The steps.
        tuning_state: What is in force, and its diagnosis.
        propose: What a step would do, by a diagnosis.
        observe: Diagnoses another version, given what is known of the one before.
    """
    parts: list[CombinedPart] = []
    version, now = tuning_state
    for optimization in optimizations:
        proposal = propose(optimization, now)
        if isinstance(proposal, Skipped) or not edits_only_input(proposal):
            continue
        version = version.with_edits(proposal.edits)
        parts.append(CombinedPart(optimization, proposal))
        if optimization is not optimizations[-1]:
            now = observe(version, now)
    return parts


@final
class CombinedOptimization(Optimization):
    """The parts as one step, so that it is measured and proved like any other."""

    name = "together"
    stage = "input"

    def __init__(self, parts: Sequence[CombinedPart]) -> None:
        self.parts = tuple(parts)

    @property
    def guarantee(self) -> Guarantee:  # type: ignore[override]
        """The loosest of theirs."""
        return find_loosest_guarantee(*(part.optimization.guarantee for part in self.parts))

    def _propose(self, context: Context) -> Proposal:
        """The same, whatever the context."""
        del context
        return self.proposal()

    def proposal(self) -> Proposal:
        """All edits in order: those of a later part are meant for what the earlier ones leave."""
        proposals = [part.proposal for part in self.parts]
        return Proposal(
            edits=tuple(edit for proposal in proposals for edit in proposal.edits),
            predicted=math.prod(proposal.predicted or 1.0 for proposal in proposals),
            at=proposals[0].at,
            rationale="; ".join(proposal.rationale for proposal in proposals),
        )

    def part_outcomes(
        self, step: PlanStep, single_steps: Sequence[PlanStep]
    ) -> tuple[PlanStep, ...]:
        """What became of each part.

        Args:
            step: What became of them as one.
            single_steps: The record of each by itself, in the same order.
        """
        if step.outcome == "kept":
            return tuple(self._kept(step))
        return tuple(
            replace(
                before,
                reason=f"{before.reason}; combined with {self._others(part)}: {step.reason}",
            )
            for part, before in zip(self.parts, single_steps, strict=True)
        )

    def _kept(self, step: PlanStep) -> Iterator[PlanStep]:
        """The last part has the figures of all: none of them was seen to gain that alone."""
        edits = iter(step.edits)
        for part in self.parts:
            proposal, last = part.proposal, part is self.parts[-1]
            yield replace(
                step,
                name=part.optimization.name,
                stage=part.optimization.stage,
                reason=f"{proposal.rationale}; measured in combination with {self._others(part)}",
                edits=tuple(islice(edits, len(proposal.edits))),
                at=proposal.at,
                source_edit=proposal.source_edit,
                samples_per_s=step.samples_per_s if last else None,
                predicted=step.predicted if last else None,
                measured=step.measured if last else None,
            )

    def _others(self, part: CombinedPart) -> str:
        return " and ".join(p.optimization.name for p in self.parts if p is not part)
