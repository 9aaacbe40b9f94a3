"""How one attempt on the road is recorded, and told in one line."""

from __future__ import annotations

from uncork.core.base.measurement import MIN_PROMISING_RATIO, Comparison, is_open_interval
from uncork.core.documents.plan import OutcomeName, PlanStep, Proof, Ratio
from uncork.core.edits.edit import AsyncCheckpoint, select_validation_edits
from uncork.optimizations.base.proposal import Optimization, Proposal

# Ratio. A step that wins less is not worth a line in a plan, nor the risk.
MIN_KEPT_SPEEDUP = 1.03


def record(
    optimization: Optimization,
    outcome: OutcomeName,
    reason: str,
    proposal: Proposal | None = None,
    proof: Proof | None = None,
    comparison: Comparison | None = None,
) -> PlanStep:
    """The record of one attempt."""
    ratio = None
    if comparison is not None:
        ratio = Ratio(ratio=comparison.ratio, low=comparison.low, high=comparison.high)
    return PlanStep(
        name=optimization.name,
        stage=optimization.stage,
        outcome=outcome,
        reason=reason,
        guarantee=optimization.guarantee,
        predicted=proposal.predicted if proposal else None,
        measured=ratio,
        proof=proof,
        at=proposal.at if proposal else None,
        source_edit=proposal.source_edit if proposal else "",
        is_for_validation=bool(proposal and select_validation_edits(proposal.edits)),
        is_for_checkpoints=any(
            isinstance(e, AsyncCheckpoint) for e in (proposal.edits if proposal else ())
        ),
    )


def format_speedup(comparison: Comparison | Ratio) -> str:
    """Ratio and interval in brackets; one whose end tells nothing is open there.

    Example:
        >>> from uncork.core.base.measurement import compare
        >>> format_speedup(compare([1.0, 1.0], [2.0, 2.0]))
        '2.00x [2.00, 2.00]'
        >>> format_speedup(Ratio(ratio=0.2, low=0.0, high=2e9))
        '0.20x [0.00, open]'
    """
    high = (
        "open" if is_open_interval(comparison.ratio, comparison.high) else f"{comparison.high:.2f}"
    )
    return f"{comparison.ratio:.2f}x [{comparison.low:.2f}, {high}]"


def not_faster_reason(comparison: Comparison) -> str:
    """Why a candidate that was measured is left out."""
    found = format_speedup(comparison)
    if comparison.verdict == "slower":
        return f"slower: {found}"
    if comparison.ratio < 1:
        return f"not faster: {found}"
    missed = (
        f"; {comparison.min_detectable_ratio:.2f}x would have been"
        if comparison.min_detectable_ratio
        else ""
    )
    return f"not proven to be at least {MIN_KEPT_SPEEDUP}x as fast: {found}{missed}"


def is_promising(step: PlanStep) -> bool:
    """Whether its gain looks worth having, but could not be told from noise."""
    if step.outcome != "rejected" or step.proof is not None or step.measured is None:
        return False
    return step.measured.ratio >= MIN_PROMISING_RATIO


def describe_outcome(step: PlanStep) -> str:
    """One line of progress."""
    if step.outcome == "kept" and step.measured:
        return f"{step.name}: kept, {step.measured.ratio:.2f}x, {step.guarantee} proved"
    if step.outcome == "kept":
        return f"{step.name}: kept, {step.guarantee} proved, {step.reason}"
    return f"{step.name}: {step.outcome}, {step.reason}"
