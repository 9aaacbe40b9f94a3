"""A training that runs out of memory as it is written: in how many parts its batch fits.

What a step takes is measured on few rows of a batch, then on more. In as many parts as a line
through these says the training is then run, which decides.
"""

from __future__ import annotations

from uncork.core.batch_facts import TooLarge
from uncork.core.errors import EditRefused
from uncork.core.journal import Journal
from uncork.core.plan import Policy, Step
from uncork.engine.fit_subject import FitSubject
from uncork.engine.proved_to_fit import proved_to_fit
from uncork.engine.room import Memory, given_up, on_rows, slope
from uncork.engine.subject import Subject
from uncork.road.micro_batches import TrainInParts
from uncork.step import device_of


def train_in_parts(
    subject: Subject, least: int, said: str, policy: Policy, journal: Journal
) -> tuple[TooLarge, Step]:
    """Let a subject's original be the training in parts, once that is proved.

    Args:
        subject: Runs out of memory as written.
        least: Fewest parts that are tried.
        said: What it ended with.
        policy: What may be done.
        journal: Told of each phase.

    Returns:
        What was found, and the step of the plan that came of it.

    Raises:
        OutOfMemory: It cannot be trained in parts, or does not fit in parts either.
    """
    size = subject.workload.batch_size
    if type(subject) is not FitSubject or not size or size < 2:
        raise given_up(said, "its batches are not Keras's to cut")
    try:
        found = _fitting(subject, size, least, said, journal)
    except EditRefused as refusal:
        raise given_up(said, refusal.received) from None
    finally:
        subject.restore()
    return found, proved_to_fit(subject, TrainInParts(), found, policy, journal)


def _fitting(subject: FitSubject, size: int, least: int, said: str, journal: Journal) -> TooLarge:
    memory = Memory(device_of(subject.model))
    subject.runner(subject.original.with_step_edits(TrainInParts.edits(2)))  # or it is refused
    journal.write("phase", "measuring the memory that a step takes, on few examples of a batch")
    taken = on_rows(subject, size, memory)
    if not taken:
        raise given_up(said, "nor is there memory for a step on a single example")
    parts = max(least, -(-size // _most_rows(taken, size, memory.most)))
    while True:
        parts = _even(size, parts)
        journal.write("phase", f"training in {parts} parts of {-(-size // parts)} examples")
        version = subject.original.with_step_edits(TrainInParts.edits(parts))
        used = memory.taken(subject.resident(version).prime)
        if used is not None and (used <= memory.most or parts == size):
            rows, before = max(taken), memory.before
            rows = next((each for each in sorted(taken) if each >= 4 * parts), rows)
            return TooLarge(
                said=said,
                rows=rows - 1 if rows % parts == 0 and rows > 1 else rows,  # one part is smaller
                parts=parts,
                bytes=max(0, used - before),
                rows_bytes=max(0, taken[rows] - before),
            )
        if parts == size:
            raise given_up(said, "nor is there memory for one example after the other")
        subject.restore()
        parts = min(size, 2 * parts)


def _most_rows(taken: dict[int, int], size: int, most: float) -> int:
    """That the line says there is memory for; fewer than all, as these were seen not to fit."""
    last = max(taken)
    if len(taken) < 2 or not slope(taken):
        return last
    more = int((most - taken[last]) / slope(taken))
    return max(1, min(-(-size // 2), last + more))


def _even(size: int, parts: int) -> int:
    """As many parts or a few more, that a batch can be cut in evenly; as many, if there are none.

    Example:
        >>> _even(100, 3), _even(97, 3)
        (4, 3)
    """
    return next((each for each in range(parts, 2 * parts) if size % each == 0), parts)
