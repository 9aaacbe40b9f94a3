"""Findings whose share, interval and threshold follow from their upper bound.

All of them are iterators: they yield nothing where the upper bound is below
:data:`~uncork.rules.base.thresholds.MIN_FINDING_SPEEDUP`.
"""

from __future__ import annotations

from collections.abc import Iterator

from uncork.core.base.measurement import Comparison
from uncork.core.costmodel.step_cost import StepCosts, predict_gain
from uncork.core.documents.diagnosis import Cause, Finding, WorkloadDiagnosis
from uncork.rules.base.thresholds import (
    MIN_FINDING_SPEEDUP,
    format_ms,
    input_share,
    speedup_bound,
    speedup_interval,
    step_speedup_interval,
)


def waits_for_input(diagnosis: WorkloadDiagnosis) -> bool:
    """Whether enough of a step is lost to input for a finding about it."""
    return input_share(diagnosis) > 1 - 1 / MIN_FINDING_SPEEDUP


def costs_bound(diagnosis: WorkloadDiagnosis, costs: StepCosts, cheaper: StepCosts) -> float:
    """How many times faster a step with the cheaper costs could be; 1 without a predicted gain.

    What the model of costs leaves unexplained of a step does not go away with any of its parts.

    Args:
        diagnosis: Whose step counts.
        costs: Of the input as it is.
        cheaper: Of the input without what a finding is about.
    """
    if predict_gain(costs, cheaper) < MIN_FINDING_SPEEDUP:
        return 1.0
    return speedup_bound(diagnosis.step_s, cheaper.step_s())


def input_finding(
    diagnosis: WorkloadDiagnosis,
    cause: Cause,
    upper_bound: float,
    at: str | None,
    evidence: str,
    remedy: str,
    *,
    share: float | None = None,
) -> Iterator[Finding]:
    """A finding about the input; its interval is as wide as that of the time lost to input.

    Args:
        diagnosis: Whose input is slow.
        cause: The name of the bottleneck.
        upper_bound: How many times faster training could be without it.
        at: The user's line.
        evidence: A sentence with the figures.
        remedy: What to type.
        share: Part of the step it accounts for; if not given, what would be saved of it, and no
            more than what is lost to input.
    """
    if upper_bound < MIN_FINDING_SPEEDUP:
        return
    yield Finding(
        cause=cause,
        share=min(input_share(diagnosis), 1 - 1 / upper_bound) if share is None else share,
        upper_bound=upper_bound,
        upper_bound_interval=speedup_interval(diagnosis, "input", upper_bound),
        at=at,
        evidence=evidence,
        remedy=remedy,
    )


def step_finding(
    diagnosis: WorkloadDiagnosis,
    cause: Cause,
    upper_bound: float,
    at: str | None,
    evidence: str,
    remedy: str,
    *,
    comparison: Comparison | None = None,
) -> Iterator[Finding]:
    """A finding about the step: its share is what would be saved of it.

    Args:
        diagnosis: Whose step is slow.
        cause: The name of the bottleneck.
        upper_bound: How many times faster training could be without it.
        at: The user's line; if there is none, the line of the training call.
        evidence: A sentence with the figures.
        remedy: What to type.
        comparison: Of the step's kernels with cheaper ones, where those were measured. The interval
            follows from it.
    """
    if upper_bound < MIN_FINDING_SPEEDUP:
        return
    share = 1 - 1 / upper_bound
    yield Finding(
        cause=cause,
        share=min(diagnosis.breakdown.get("step", 0.0), share) if comparison else share,
        upper_bound=upper_bound,
        upper_bound_interval=step_speedup_interval(diagnosis, comparison) if comparison else None,
        at=at or diagnosis.workload.at,
        evidence=evidence,
        remedy=remedy,
    )


def host_finding(
    diagnosis: WorkloadDiagnosis,
    cause: Cause,
    at: str | None,
    evidence: str,
    remedy: str,
    *,
    fetched_share: float = 0.0,
    explained_share: float = 0.0,
) -> Iterator[Finding]:
    """The finding that blames all time lost to the host on one cause; none where it is little.

    Some time passes between any two steps, and on a CPU the input uses it. So little is blamed only
    where the lower end of its interval is worth naming too.

    Args:
        diagnosis: Whose share counts.
        cause: Which of the causes between the steps it is: the caller knows.
        at: The user's line.
        evidence: A sentence, with ``{lost}`` and ``{step}`` where those times belong.
        remedy: What to type.
        fetched_share: Part of the step that would go with it, if there is such a finding at all.
        explained_share: Part of it that another finding explains.
    """
    share = max(
        0.0, diagnosis.breakdown.get("host", 0.0) - diagnosis.outside_step_share - explained_share
    )
    upper = speedup_bound(1.0, 1.0 - share)
    if min((upper, *(speedup_interval(diagnosis, "host", upper) or ()))) < MIN_FINDING_SPEEDUP:
        return
    share += fetched_share
    upper = speedup_bound(1.0, 1.0 - share)
    yield Finding(
        cause=cause,
        share=share,
        upper_bound=upper,
        upper_bound_interval=speedup_interval(diagnosis, "host", upper),
        at=at,
        evidence=evidence.format(
            lost=format_ms(share * diagnosis.step_s), step=format_ms(diagnosis.step_s)
        ),
        remedy=remedy,
    )


def correctness_finding(cause: Cause, at: str | None, evidence: str, remedy: str) -> Finding:
    """A finding that promises no gain: the training is wrong, fast or not."""
    return Finding(
        cause=cause,
        severity="correctness",
        share=0.0,
        upper_bound=1.0,
        at=at,
        evidence=evidence,
        remedy=remedy,
    )
