"""Records the outcome of a trial, and describes it in one line."""

from __future__ import annotations

from uncork.core.base.measurement import MIN_PROMISING_RATIO, Comparison, is_open_interval
from uncork.core.documents.plan import OutcomeName, PlanStep, Proof, Ratio
from uncork.core.edits.edit import AsyncCheckpoint, select_validation_edits
from uncork.optimizations.base.proposal import Optimization, Proposal

# Ratio. An optimization that gains less is not worth its risk.
MIN_KEPT_SPEEDUP = 1.03


def record(
    optimization: Optimization,
    outcome: OutcomeName,
    reason: str,
    proposal: Proposal | None = None,
    proof: Proof | None = None,
    comparison: Comparison | Ratio | None = None,
) -> PlanStep:
    """Record the outcome of one trial."""
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
    """Format ratio and interval in brackets; an end that is far away is open.

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
    """Why Uncork rejects a candidate that it measured."""
    speedup = format_speedup(comparison)
    if comparison.verdict == "slower":
        return f"slower: {speedup}"
    if comparison.ratio < 1:
        return f"not faster: {speedup}"
    detectable = (
        f"; the trial can detect {comparison.min_detectable_ratio:.2f}x"
        if comparison.min_detectable_ratio
        else ""
    )
    return f"not proven to be at least {MIN_KEPT_SPEEDUP}x as fast: {speedup}{detectable}"


def is_promising(step: PlanStep) -> bool:
    """Whether the measured gain is large enough, but not distinguishable from noise."""
    if step.outcome != "rejected" or step.proof is not None or step.measured is None:
        return False
    return step.measured.ratio >= MIN_PROMISING_RATIO


def describe_outcome(step: PlanStep) -> str:
    """Describe the outcome in one line of progress."""
    if step.outcome == "kept" and step.measured:
        return f"{step.name}: accepted, {step.measured.ratio:.2f}x, {step.guarantee} proved"
    if step.outcome == "kept":
        return f"{step.name}: accepted, {step.guarantee} proved, {step.reason}"
    return f"{step.name}: {step.outcome}, {step.reason}"
