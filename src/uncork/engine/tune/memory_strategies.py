"""A training that runs out of memory as it is written: in how many parts, or segments, it fits.

What a step takes is measured on few rows of a batch, then on more. What a line through these says
is then run, which decides, and is proved against few examples as written.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from uncork.core.base.errors import EditRefused, OutOfMemory
from uncork.core.base.journal import Journal
from uncork.core.base.record import replace
from uncork.core.documents.plan import PlanStep, Policy
from uncork.core.edits.edit import find_loosest_guarantee
from uncork.core.edits.step import StepEdit
from uncork.core.evidence.batches import MemoryOverflow
from uncork.engine.fit.fit_subject import FitSubject
from uncork.engine.subject.subject import Subject
from uncork.engine.tune.memory_model import (
    MemoryMeter,
    bytes_per_row,
    measure_rows,
    out_of_memory_error,
    predict_bytes,
)
from uncork.optimizations.base.outcomes import record
from uncork.optimizations.base.proposal import Proposal
from uncork.optimizations.batch.micro_batches import MicroBatchesOptimization
from uncork.optimizations.batch.recompute_activations import RecomputeActivationsOptimization
from uncork.training.memory.segments import count_recomputed_segments
from uncork.training.tracing.step_info import step_device

# Segments. With more of them, what goes into each, which is held, outweighs what one holds less.
_MOST: Final = 64
# Examples of each batch in the proof: enough for statistics over them, and soon gone through.
_PROVED: Final = 8


@dataclass
class MemoryStrategy(ABC):
    """One way to train the same batch in less memory: in parts, or in segments.

    Attributes:
        subject: Runs out of memory as written.
        min_count: Fewest parts, or segments, that are tried.
        error_message: What the training ended with.
        policy: What may be done.
        journal: Told of each phase.
    """

    subject: Subject
    min_count: int
    error_message: str
    policy: Policy
    journal: Journal

    optimization: ClassVar[MicroBatchesOptimization | RecomputeActivationsOptimization]
    # In so many it is asked first whether the step can be changed at all.
    first_count: ClassVar[int]
    # Why nothing is tried on what is no ``fit`` with batches, and why nothing more can be tried.
    not_keras_reason: ClassVar[str]
    exhausted_reason: ClassVar[str]

    def apply(self) -> tuple[MemoryOverflow, PlanStep]:
        """Let a subject's original be the training that fits, once that is proved.

        Returns:
            What was found, and the step of the plan that came of it.

        Raises:
            OutOfMemory: It cannot be trained so, does not fit so either, is another training then,
                or one that the policy does not allow.
        """
        subject, size = self.subject, self.subject.workload.batch_size
        if type(subject) is not FitSubject or not size or size < 2:
            raise self._error(self.not_keras_reason)
        try:
            found = self._search(subject, size)
        except EditRefused as refusal:
            raise self._error(refusal.received) from None
        finally:
            subject.restore()
        return found, self._prove(subject, found)

    @abstractmethod
    def _candidates(
        self, subject: FitSubject, size: int, taken: dict[int, int], memory: MemoryMeter
    ) -> Iterator[MemoryOverflow]:
        """What to try, as it is told where it fits; ``taken`` are the bytes of so many rows."""

    def _search(self, subject: FitSubject, size: int) -> MemoryOverflow:
        """The first candidate in which the whole batch was seen to fit."""
        memory = MemoryMeter(step_device(subject.model))
        first = self.optimization.edits(self.first_count)
        subject.runner(subject.original.with_step_edits(first))  # or it is refused
        text = "measuring the memory of a step on a few examples of a batch"
        self.journal.write("phase", text)
        taken = measure_rows(subject, size, memory)
        if not taken:
            raise self._error("a step on a single example does not fit into memory, either")
        for found in self._candidates(subject, size, taken, memory):
            edits = self.optimization.edits(found.segments or found.parts)
            version = subject.original.with_step_edits(edits)
            used = memory.measure_peak(subject.resident_runner(version).prime)
            # Where there are no smaller parts, what ran is good enough.
            if used is not None and (used <= memory.max_bytes or found.parts == size):
                before = memory.initial_bytes
                return replace(
                    found,
                    peak_bytes=max(0, used - before),
                    fitting_rows_peak_bytes=max(0, found.fitting_rows_peak_bytes - before),
                )
            subject.restore()
        raise self._error(self.exhausted_reason)

    def _prove(self, subject: FitSubject, memory_overflow: MemoryOverflow) -> PlanStep:
        proposal = self.optimization.propose_for(memory_overflow, subject.workload)
        assert isinstance(proposal, Proposal)
        subject.require_edits(tuple(edit for edit in proposal.edits if isinstance(edit, StepEdit)))
        self.journal.write(
            "phase",
            f"proving {self.optimization.name}: {memory_overflow.description}, against "
            f"{memory_overflow.fitting_rows} rows",
        )
        try:
            proof = subject.prove_on_rows(memory_overflow.fitting_rows)
        except EditRefused as refusal:
            raise self._error(refusal.received) from None
        finally:
            subject.restore()
        if not proof.passed:
            why = (
                f"not proven to be the same training {memory_overflow.description}: {proof.detail}"
            )
            raise self._error(why)
        allowed = self.policy.loosest_guarantee
        if find_loosest_guarantee(proof.kind, allowed) != allowed:
            why = f"{memory_overflow.description} it is {proof.kind}, the policy allows {allowed}"
            raise self._error(why)
        step = record(self.optimization, "kept", proposal.rationale, proposal, proof)
        return replace(step, guarantee=proof.kind, edits=proposal.edits)

    def _candidate(self, rows: int, rows_bytes: int, **count: int) -> MemoryOverflow:
        """Without its peak, and ``rows_bytes`` with what was taken before."""
        found = MemoryOverflow(
            error_message=self.error_message,
            fitting_rows=rows,
            peak_bytes=0,
            fitting_rows_peak_bytes=rows_bytes,
        )
        return replace(found, **count)

    def _error(self, reason: str) -> OutOfMemory:
        return out_of_memory_error(self.error_message, reason)


class MicroBatchStrategy(MemoryStrategy):
    """Go through each batch in as few parts as fit."""

    optimization = MicroBatchesOptimization()
    first_count = 2
    not_keras_reason = "Keras does not control its batches"
    exhausted_reason = "micro-batches of one example do not fit into memory, either"

    def _candidates(
        self, subject: FitSubject, size: int, taken: dict[int, int], memory: MemoryMeter
    ) -> Iterator[MemoryOverflow]:
        """As many parts as the line says, then twice as many each time, down to one example."""
        parts, last = max(self.min_count, -(-size // _most_rows(taken, size, memory.max_bytes))), 0
        while last != size:
            last = parts = _even(size, parts)
            self.journal.write(
                "phase", f"training with {parts} micro-batches of {-(-size // parts)} examples"
            )
            rows = next((each for each in sorted(taken) if each >= 4 * parts), max(taken))
            # One part is smaller.
            proved = rows - 1 if rows % parts == 0 and rows > 1 else rows
            yield self._candidate(proved, taken[rows], parts=parts)
            parts = min(size, 2 * parts)


class RecomputeStrategy(MemoryStrategy):
    """Run the model again in the backward pass, in as few segments as fit.

    More segments hold less at a time, and are run again all but one. The whole batch is run only
    where a line through what few rows take in so many says that there is memory for it.
    """

    optimization = RecomputeActivationsOptimization()
    first_count = _MOST
    not_keras_reason = "Keras does not control its step"
    exhausted_reason = "it does not fit into memory with the largest number of segments, either"

    def _candidates(
        self, subject: FitSubject, size: int, taken: dict[int, int], memory: MemoryMeter
    ) -> Iterator[MemoryOverflow]:
        """Twice as many segments each time, as long as more are made of the model."""
        rows = next((each for each in sorted(taken) if each >= _PROVED), max(taken))
        for segments in _numbers(subject.model, self.min_count):
            self.journal.write("phase", f"recomputing activations in {segments} segments")
            few = {}
            for each in sorted(taken)[-2:]:
                runner = subject.runner_on_rows(each, self.optimization.edits(segments))
                used = memory.measure_peak(runner.prime)
                subject.restore()
                if used is not None:
                    few[each] = used
            if few and predict_bytes(few, size) <= memory.max_bytes:
                yield self._candidate(rows, taken[rows], segments=segments)


def _numbers(model: Any, least: int) -> Iterator[int]:
    """Of segments, twice as many each time, as long as more are made of the model."""
    segments, before = max(2, least), 0
    while segments <= _MOST:
        again = count_recomputed_segments(model, segments)
        if again > before:
            yield segments
        segments, before = 2 * segments, max(again, before)


def _most_rows(taken: dict[int, int], size: int, most: float) -> int:
    """That the line says there is memory for; fewer than all, as these were seen not to fit."""
    last = max(taken)
    if len(taken) < 2 or not bytes_per_row(taken):
        return last
    more = int((most - taken[last]) / bytes_per_row(taken))
    return max(1, min(-(-size // 2), last + more))


def _even(size: int, parts: int) -> int:
    """As many parts or a few more, that a batch can be cut in evenly; as many, if there are none.

    Example:
        >>> _even(100, 3), _even(97, 3)
        (4, 3)
    """
    return next((each for each in range(parts, 2 * parts) if size % each == 0), parts)
