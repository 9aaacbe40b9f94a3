"""What is done about a training that runs out of memory as it is written: one thing or another."""

from __future__ import annotations

from uncork.core.base.errors import OutOfMemory
from uncork.core.base.journal import Journal
from uncork.core.documents.plan import Policy, Step
from uncork.core.evidence.batches import TooLarge
from uncork.engine.fit.fit_subject import FitSubject
from uncork.engine.subject.subject import Subject
from uncork.engine.tune.memory_strategies import train_in_parts, train_recomputed


def made_to_fit(
    subject: Subject, least: int, said: str, policy: Policy, journal: Journal
) -> tuple[TooLarge, Step]:
    """Let a subject's original be a training that fits into memory, once that is proved.

    In parts first: that costs next to no time. Where a part of a batch is not the batch, what its
    layers gave is made again, which takes the time of most of another forward pass.

    Args:
        subject: Runs out of memory as written.
        least: Fewest parts, or segments, that are tried.
        said: What it ended with.
        policy: What may be done.
        journal: Told of each phase.

    Returns:
        What was found, and the step of the plan that came of it.

    Raises:
        OutOfMemory: Nothing helps, with all reasons.
    """
    try:
        return train_in_parts(subject, least, said, policy, journal)
    except OutOfMemory as refused:
        if type(subject) is not FitSubject:
            raise
        in_parts = refused
    subject.needing(())
    journal.write("phase", f"{in_parts.received}: trying to make activations again"[:300])
    try:
        return train_recomputed(subject, least, said, policy, journal)
    except OutOfMemory as refused:
        why = refused.received.removeprefix(f"{said}; ")
        subject.needing(())
        raise OutOfMemory(
            f"{in_parts.received}; nor with activations made again: {why}",
            refused.expected,
            refused.remedy,
        ) from None
