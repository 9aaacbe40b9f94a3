"""A training that runs out of memory as it is written: in how many parts its batch fits.

What a step takes is a line over the number of its examples, near enough: it is measured on few
rows, then on more, as long as the next is foreseen to fit. So no trial takes what the machine has
not got. In as many parts as the line says the training is then run, which decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import psutil
import tensorflow as tf

from uncork.core.batch_facts import TooLarge
from uncork.core.edit import loosest
from uncork.core.errors import EditRefused, OutOfMemory
from uncork.core.journal import Journal
from uncork.core.plan import Policy, Step
from uncork.core.record import replace
from uncork.engine.fit_subject import FitSubject
from uncork.engine.outcomes import record
from uncork.engine.subject import Subject
from uncork.measure import available_memory, peak_memory
from uncork.measure.device_memory import forget_peak, limit, peak
from uncork.road import Proposal
from uncork.road.micro_batches import TrainInParts
from uncork.step import device_of

# What TensorFlow, Python and NumPy raise.
_NO_MEMORY: Final = (tf.errors.ResourceExhaustedError, MemoryError)
# What TensorFlow makes of oneDNN's "out of memory", its status 1.
_ONEDNN: Final = "Compute received an exception:Status:1,"
# Of the memory that is left: what the input and the callbacks take beside a step is not known.
_MARGIN: Final = 0.8
# Parts of a batch, and times as many rows, that are measured.
_FIRST: Final = 64
_MORE: Final = 4
_SAID: Final = "OOM when allocating"
_SMALLER: Final = "a smaller batch, or a smaller model"


def ran_out(error: Exception) -> bool:
    """Whether an error says that there was no memory.

    Example:
        >>> ran_out(MemoryError()), ran_out(ValueError("no memory"))
        (True, False)
    """
    return isinstance(error, _NO_MEMORY) or (
        isinstance(error, tf.errors.AbortedError) and _ONEDNN in str(error)
    )


def said_of(error: BaseException) -> str:
    """The line of an error that says what there was no memory for.

    Example:
        >>> said_of(MemoryError("Unable to allocate 3 GiB"))
        'Unable to allocate 3 GiB'
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    found = next((line for line in lines if _SAID in line or _ONEDNN in line), "")
    found = found or (lines[0] if lines else "no memory")
    return found[max(0, found.find(_SAID)) :].split(" on /job")[0].split(" in file ")[0]


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
        raise _given_up(said, "its batches are not Keras's to cut")
    try:
        found = _fitting(subject, size, least, said, journal)
    except EditRefused as refusal:
        raise _given_up(said, refusal.received) from None
    finally:
        subject.restore()
    subject.in_parts(found.parts)
    journal.write("phase", f"proving micro_batches: {found.parts} parts against {found.rows} rows")
    try:
        proof = subject.prove_in_parts(found.rows)
    except EditRefused as refusal:
        raise _given_up(said, refusal.received) from None
    finally:
        subject.restore()
    if proof.passed and loosest(proof.kind, policy.loosest) != policy.loosest:
        raise _given_up(said, f"in parts it is {proof.kind}, the policy allows {policy.loosest}")
    if not proof.passed:
        raise _given_up(said, f"in parts it is not proved to be the same training: {proof.detail}")
    proposal = TrainInParts().of(found, subject.workload)
    assert isinstance(proposal, Proposal)
    step = record(TrainInParts(), "kept", proposal.why, proposal, proof)
    return found, replace(step, guarantee=proof.kind, edits=proposal.edits)


def _given_up(said: str, why: str) -> OutOfMemory:
    return OutOfMemory(f"{said}; {why}", "a training that fits into memory", _SMALLER)


def _fitting(subject: FitSubject, size: int, least: int, said: str, journal: Journal) -> TooLarge:
    memory = _Memory(device_of(subject.model))
    subject.runner(subject.original.with_step_edits(TrainInParts.edits(2)))  # or it is refused
    journal.write("phase", "measuring the memory that a step takes, on few examples of a batch")
    taken = _on_rows(subject, size, memory)
    if not taken:
        raise _given_up(said, "nor is there memory for a step on a single example")
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
            raise _given_up(said, "nor is there memory for one example after the other")
        subject.restore()
        parts = min(size, 2 * parts)


def _on_rows(subject: FitSubject, size: int, memory: _Memory) -> dict[int, int]:
    """What the step as written takes on so many rows, as long as the next is foreseen to fit."""
    taken: dict[int, int] = {}
    rows = max(1, size // _FIRST)
    while rows < size and _foreseen(taken, rows) <= memory.most:
        used = memory.taken(subject.on_rows(rows).prime)
        subject.restore()
        if used is None and (taken or rows == 1):
            break
        if used is None:
            rows = 1
            continue
        taken[rows] = used
        rows *= _MORE
    return taken


def _slope(taken: dict[int, int]) -> float:
    """Bytes of each row more, by the last two sizes."""
    (less, few), (more, many) = sorted(taken.items())[-2:]
    return max(0.0, (many - few) / (more - less))


def _foreseen(taken: dict[int, int], rows: int) -> float:
    if len(taken) < 2:
        return 0.0
    last = max(taken)
    return taken[last] + _slope(taken) * (rows - last)


def _most_rows(taken: dict[int, int], size: int, most: float) -> int:
    """That the line says there is memory for; fewer than all, as these were seen not to fit."""
    last = max(taken)
    if len(taken) < 2 or not _slope(taken):
        return last
    more = int((most - taken[last]) / _slope(taken))
    return max(1, min(-(-size // 2), last + more))


def _even(size: int, parts: int) -> int:
    """As many parts or a few more, that a batch can be cut in evenly; as many, if there are none.

    Example:
        >>> _even(100, 3), _even(97, 3)
        (4, 3)
    """
    return next((each for each in range(parts, 2 * parts) if size % each == 0), parts)


class _Memory:
    """Of the device that trains, or of this process where that is the host's.

    Attributes:
        before: What was taken when this was made.
        most: That may be taken.
    """

    def __init__(self, device: str) -> None:
        total = limit(device)
        self._device = device if total else ""
        if total:
            self.before, self.most = peak(device), _MARGIN * total
        else:
            self.before = int(psutil.Process().memory_info().rss)
            self.most = self.before + _MARGIN * available_memory()

    def taken(self, run: Callable[[], object]) -> int | None:
        """The most while something runs, with all that was taken before; None if it ran out."""
        try:
            if self._device:
                forget_peak(self._device)
                run()
                return peak(self._device)
            with peak_memory() as found:
                run()
            return found.highest
        except Exception as error:
            if ran_out(error):
                return None
            raise
