"""What a policy accepts, and who proves it."""

from __future__ import annotations

import functools
from collections.abc import Callable

from uncork.core.base.record import replace
from uncork.core.documents.plan import Policy, Proof
from uncork.core.edits.edit import Guarantee, LoaderEdit, find_loosest_guarantee
from uncork.core.edits.pipeline import DiskCache, PipelineEdit
from uncork.core.edits.step import MapOnDevice
from uncork.engine.subject import time_budget as seconds
from uncork.engine.subject.subject import Subject
from uncork.engine.tune.secondary_costs import SecondaryCost
from uncork.optimizations.base.proposal import Optimization, Proposal
from uncork.training.variant import Variant
from uncork.verify.provers.pipeline import PipelineProver

Prove = Callable[[Variant, Guarantee, float], Proof]


class GuaranteePolicy:
    """Proves of each candidate what its optimization promises.

    Args:
        subject: What is trained.
        policy: What may be done.
    """

    def __init__(self, subject: Subject, policy: Policy) -> None:
        self._subject = subject
        self._policy = policy
        batch_size = subject.workload.batch_size
        self._of_pipelines = PipelineProver(subject.original.pipeline, batch_size)

    def allows(self, guarantee: Guarantee) -> bool:
        """The policy accepts this promise, or a weaker one."""
        return (
            find_loosest_guarantee(guarantee, self._policy.loosest_guarantee)
            == self._policy.loosest_guarantee
        )

    def prove(
        self,
        candidate: Variant,
        optimization: Optimization,
        proposal: Proposal,
        *,
        part: SecondaryCost | None,
        time_left_s: float,
    ) -> Proof:
        """The promise as it is made, or the weaker one that it falls back on, if allowed.

        Args:
            candidate: With the edits that were proposed.
            optimization: That proposed them.
            proposal: What it proposed.
            part: What differs, where that is proved by itself.
            time_left_s: Seconds of the budget, for what reads whole epochs of much data.
        """
        if optimization.guarantee == "training":
            return self._subject.prove_training(candidate, seconds.TRAINING_PROOF_S)
        prove = self._prover(proposal, part)
        proof_s = _proof_s(candidate, proposal, time_left_s)
        proof = self._as_allowed(prove(candidate, optimization.guarantee, proof_s))
        weaker = optimization.fallback_guarantee
        if proof.passed or weaker is None or not self.allows(weaker):
            return proof
        return self._as_allowed(prove(candidate, weaker, seconds.PROOF_S))

    def _prover(self, proposal: Proposal, part: SecondaryCost | None) -> Prove:
        if part is not None:
            return functools.partial(part.prove, self._subject)
        if any(isinstance(edit, PipelineEdit) for edit in proposal.edits):
            with_step = any(isinstance(edit, MapOnDevice) for edit in proposal.edits)
            return self._of_both if with_step else self._of_pipelines.prove
        if any(isinstance(edit, LoaderEdit) for edit in proposal.edits):
            return self._subject.prove_loader
        return self._subject.prove_step

    def _of_both(self, candidate: Variant, kind: Guarantee, budget_s: float) -> Proof:
        """The elements of its pipeline first, then what its step makes of them."""
        elements = self._of_pipelines.prove(candidate, "exact", budget_s / 2)
        if not elements.passed:
            return elements
        step = self._subject.prove_step(candidate, kind, budget_s / 2)
        kind = find_loosest_guarantee(elements.kind, step.kind)
        return replace(step, kind=kind, detail=f"{elements.detail}; {step.detail}")

    def _as_allowed(self, proof: Proof) -> Proof:
        """A proof of something weaker than the policy accepts is none."""
        if self.allows(proof.kind) or not proof.passed:
            return proof
        detail = (
            f"only {proof.kind}, and the policy allows {self._policy.loosest_guarantee}: "
            f"{proof.detail}"
        )
        return replace(proof, passed=False, detail=detail)


def _proof_s(candidate: Variant, proposal: Proposal, time_left_s: float) -> float:
    """Seconds for a proof. Passes over the data take the time that is left, within limits."""
    if any(isinstance(edit, DiskCache) for edit in candidate.pipeline_edits):
        return max(seconds.PROOF_S, time_left_s)
    if any(isinstance(edit, PipelineEdit) for edit in proposal.edits):
        return min(seconds.PROOF_S, max(seconds.MIN_PIPELINE_PROOF_S, time_left_s))
    return seconds.PROOF_S
