"""What is done about a training that runs out of memory as it is written: one thing or another."""

from __future__ import annotations

from uncork.core.base.errors import OutOfMemory
from uncork.core.base.journal import Journal
from uncork.core.documents.plan import PlanStep, Policy
from uncork.core.evidence.batches import MemoryOverflow
from uncork.engine.fit.fit_subject import FitSubject
from uncork.engine.subject.subject import Subject
from uncork.engine.tune.memory_strategies import MicroBatchStrategy, RecomputeStrategy


def fit_into_memory(
    subject: Subject, min_parts: int, error_message: str, policy: Policy, journal: Journal
) -> tuple[MemoryOverflow, PlanStep]:
    """Let a subject's original be a training that fits into memory, once that is proved.

    In parts first: that costs next to no time. Where a part of a batch is not the batch, what its
    layers gave is made again, which takes the time of most of another forward pass.

    Args:
        subject: Runs out of memory as written.
        min_parts: Fewest parts, or segments, that are tried.
        error_message: What it ended with.
        policy: What may be done.
        journal: Told of each phase.

    Returns:
        What was found, and the step of the plan that came of it.

    Raises:
        OutOfMemory: Nothing helps, with all reasons.
    """
    try:
        return MicroBatchStrategy(subject, min_parts, error_message, policy, journal).apply()
    except OutOfMemory as refused:
        if type(subject) is not FitSubject:
            raise
        in_parts = refused
    subject.require_edits(())
    journal.write("phase", f"{in_parts.received}: trying to recompute activations"[:300])
    try:
        return RecomputeStrategy(subject, min_parts, error_message, policy, journal).apply()
    except OutOfMemory as refused:
        why = refused.received.removeprefix(f"{error_message}; ")
        subject.require_edits(())
        raise OutOfMemory(
            f"{in_parts.received}; nor with recomputed activations: {why}",
            refused.expected,
            refused.remedy,
        ) from None
