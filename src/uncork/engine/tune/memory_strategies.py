"""A training that runs out of memory as it is written: how much is to be made again, that it fits.

More segments hold less at a time, and are run again in the backward pass all but one. So the fewest
are looked for: what a step takes in so many is measured on few rows of a batch, and the whole batch
is run only where a line through these says that there is memory for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from uncork.core.batch_facts import TooLarge
from uncork.core.errors import EditRefused
from uncork.core.journal import Journal
from uncork.core.plan import Policy, Step
from uncork.engine.fit_subject import FitSubject
from uncork.engine.proved_to_fit import proved_to_fit
from uncork.engine.room import Memory, foreseen, given_up, on_rows
from uncork.engine.subject import Subject
from uncork.road.recompute_activations import RunSegmentsAgain
from uncork.step import device_of, segments_run_again

# With more of them, what goes into each, which is held, outweighs what one holds less.
_MOST: Final = 64
# Examples of each batch in the proof: enough for statistics over them, and soon gone through.
_PROVED: Final = 8


def train_recomputed(
    subject: Subject, least: int, said: str, policy: Policy, journal: Journal
) -> tuple[TooLarge, Step]:
    """Let a subject's original be the training whose activations are made again, once proved.

    Args:
        subject: Runs out of memory as written.
        least: Fewest segments that are tried.
        said: What it ended with.
        policy: What may be done.
        journal: Told of each phase.

    Returns:
        What was found, and the step of the plan that came of it.

    Raises:
        OutOfMemory: It cannot be trained so, or does not fit so either.
    """
    size = subject.workload.batch_size
    if type(subject) is not FitSubject or not size or size < 2:
        raise given_up(said, "its step is not Keras's to change")
    try:
        found = _fitting(subject, size, least, said, journal)
    except EditRefused as refusal:
        raise given_up(said, refusal.received) from None
    finally:
        subject.restore()
    return found, proved_to_fit(subject, RunSegmentsAgain(), found, policy, journal)


def _fitting(subject: FitSubject, size: int, least: int, said: str, journal: Journal) -> TooLarge:
    memory = Memory(device_of(subject.model))
    subject.runner(subject.original.with_step_edits(RunSegmentsAgain.edits(_MOST)))  # or refused
    journal.write("phase", "measuring the memory that a step takes, on few examples of a batch")
    taken = on_rows(subject, size, memory)
    if not taken:
        raise given_up(said, "nor is there memory for a step on a single example")
    rows = next((each for each in sorted(taken) if each >= _PROVED), max(taken))
    for segments in _numbers(subject.model, least):
        edits = RunSegmentsAgain.edits(segments)
        journal.write("phase", f"running segments again, {segments} of them")
        few = {}
        for each in sorted(taken)[-2:]:
            used = memory.taken(subject.on_rows(each, edits).prime)
            subject.restore()
            if used is not None:
                few[each] = used
        if not few or foreseen(few, size) > memory.most:
            continue
        used = memory.taken(subject.resident(subject.original.with_step_edits(edits)).prime)
        if used is not None and used <= memory.most:
            return TooLarge(
                said=said,
                rows=rows,
                segments=segments,
                bytes=max(0, used - memory.before),
                rows_bytes=max(0, taken[rows] - memory.before),
            )
        subject.restore()
    raise given_up(said, "in as many segments as it can be cut in, there is no memory either")


def _numbers(model: Any, least: int) -> Iterator[int]:
    """Of segments, twice as many each time, as long as more are made of the model."""
    segments, before = max(2, least), 0
    while segments <= _MOST:
        again = segments_run_again(model, segments)
        if again > before:
            yield segments
        segments, before = 2 * segments, max(again, before)
