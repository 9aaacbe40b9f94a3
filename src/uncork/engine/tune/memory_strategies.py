"""A training that runs out of memory as it is written: in how many parts its batch fits.

What a step takes is measured on few rows of a batch, then on more. In as many parts as a line
through these says the training is then run, which decides.

A training that fits into memory in another way: proved against few examples as written.

A training that runs out of memory as it is written: how much is to be made again, that it fits.

More segments hold less at a time, and are run again in the backward pass all but one. So the fewest
are looked for: what a step takes in so many is measured on few rows of a batch, and the whole batch
is run only where a line through these says that there is memory for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from uncork.core.base.errors import EditRefused
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


def prove_fit(
    subject: FitSubject,
    optimization: MicroBatchesOptimization | RecomputeActivationsOptimization,
    memory_overflow: MemoryOverflow,
    policy: Policy,
    journal: Journal,
) -> PlanStep:
    """Let that be a subject's original, once it is proved to be the same training.

    Args:
        subject: Runs out of memory as written.
        optimization: In which it does not.
        memory_overflow: How it fits.
        policy: What may be done.
        journal: Told what is proved.

    Returns:
        The step of the plan that came of it.

    Raises:
        OutOfMemory: It is another training, or one that the policy does not allow.
    """
    proposal = optimization.propose_for(memory_overflow, subject.workload)
    assert isinstance(proposal, Proposal)
    subject.require_edits(tuple(edit for edit in proposal.edits if isinstance(edit, StepEdit)))
    journal.write(
        "phase",
        f"proving {optimization.name}: {memory_overflow.description}, against "
        f"{memory_overflow.fitting_rows} rows",
    )
    try:
        proof = subject.prove_on_rows(memory_overflow.fitting_rows)
    except EditRefused as refusal:
        raise out_of_memory_error(memory_overflow.error_message, refusal.received) from None
    finally:
        subject.restore()
    if not proof.passed:
        why = (
            f"it is not proved to be the same training {memory_overflow.description}: "
            f"{proof.detail}"
        )
        raise out_of_memory_error(memory_overflow.error_message, why)
    if find_loosest_guarantee(proof.kind, policy.loosest_guarantee) != policy.loosest_guarantee:
        why = (
            f"{memory_overflow.description} it is {proof.kind}, the policy allows "
            f"{policy.loosest_guarantee}"
        )
        raise out_of_memory_error(memory_overflow.error_message, why)
    step = record(optimization, "kept", proposal.rationale, proposal, proof)
    return replace(step, guarantee=proof.kind, edits=proposal.edits)


def train_in_parts(
    subject: Subject, min_parts: int, error_message: str, policy: Policy, journal: Journal
) -> tuple[MemoryOverflow, PlanStep]:
    """Let a subject's original be the training in parts, once that is proved.

    Args:
        subject: Runs out of memory as written.
        min_parts: Fewest parts that are tried.
        error_message: What it ended with.
        policy: What may be done.
        journal: Told of each phase.

    Returns:
        What was found, and the step of the plan that came of it.

    Raises:
        OutOfMemory: It cannot be trained in parts, or does not fit in parts either.
    """
    size = subject.workload.batch_size
    if type(subject) is not FitSubject or not size or size < 2:
        raise out_of_memory_error(error_message, "its batches are not Keras's to cut")
    try:
        found = _fitting_parts(subject, size, min_parts, error_message, journal)
    except EditRefused as refusal:
        raise out_of_memory_error(error_message, refusal.received) from None
    finally:
        subject.restore()
    return found, prove_fit(subject, MicroBatchesOptimization(), found, policy, journal)


def _fitting_parts(
    subject: FitSubject, size: int, least: int, said: str, journal: Journal
) -> MemoryOverflow:
    memory = MemoryMeter(step_device(subject.model))
    subject.runner(
        subject.original.with_step_edits(MicroBatchesOptimization.edits(2))
    )  # or it is refused
    journal.write("phase", "measuring the memory that a step takes, on few examples of a batch")
    taken = measure_rows(subject, size, memory)
    if not taken:
        raise out_of_memory_error(said, "nor is there memory for a step on a single example")
    parts = max(least, -(-size // _most_rows(taken, size, memory.max_bytes)))
    while True:
        parts = _even(size, parts)
        journal.write("phase", f"training in {parts} parts of {-(-size // parts)} examples")
        version = subject.original.with_step_edits(MicroBatchesOptimization.edits(parts))
        used = memory.measure_peak(subject.resident_runner(version).prime)
        if used is not None and (used <= memory.max_bytes or parts == size):
            rows, before = max(taken), memory.initial_bytes
            rows = next((each for each in sorted(taken) if each >= 4 * parts), rows)
            return MemoryOverflow(
                error_message=said,
                fitting_rows=rows - 1
                if rows % parts == 0 and rows > 1
                else rows,  # one part is smaller
                parts=parts,
                peak_bytes=max(0, used - before),
                fitting_rows_peak_bytes=max(0, taken[rows] - before),
            )
        if parts == size:
            raise out_of_memory_error(said, "nor is there memory for one example after the other")
        subject.restore()
        parts = min(size, 2 * parts)


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


# With more of them, what goes into each, which is held, outweighs what one holds less.
_MOST: Final = 64
# Examples of each batch in the proof: enough for statistics over them, and soon gone through.
_PROVED: Final = 8


def train_with_recompute(
    subject: Subject, min_segments: int, error_message: str, policy: Policy, journal: Journal
) -> tuple[MemoryOverflow, PlanStep]:
    """Let a subject's original be the training whose activations are made again, once proved.

    Args:
        subject: Runs out of memory as written.
        min_segments: Fewest segments that are tried.
        error_message: What it ended with.
        policy: What may be done.
        journal: Told of each phase.

    Returns:
        What was found, and the step of the plan that came of it.

    Raises:
        OutOfMemory: It cannot be trained so, or does not fit so either.
    """
    size = subject.workload.batch_size
    if type(subject) is not FitSubject or not size or size < 2:
        raise out_of_memory_error(error_message, "its step is not Keras's to change")
    try:
        found = _fitting_recompute(subject, size, min_segments, error_message, journal)
    except EditRefused as refusal:
        raise out_of_memory_error(error_message, refusal.received) from None
    finally:
        subject.restore()
    return found, prove_fit(subject, RecomputeActivationsOptimization(), found, policy, journal)


def _fitting_recompute(
    subject: FitSubject, size: int, least: int, said: str, journal: Journal
) -> MemoryOverflow:
    memory = MemoryMeter(step_device(subject.model))
    subject.runner(
        subject.original.with_step_edits(RecomputeActivationsOptimization.edits(_MOST))
    )  # or refused
    journal.write("phase", "measuring the memory that a step takes, on few examples of a batch")
    taken = measure_rows(subject, size, memory)
    if not taken:
        raise out_of_memory_error(said, "nor is there memory for a step on a single example")
    rows = next((each for each in sorted(taken) if each >= _PROVED), max(taken))
    for segments in _numbers(subject.model, least):
        edits = RecomputeActivationsOptimization.edits(segments)
        journal.write("phase", f"running segments again, {segments} of them")
        few = {}
        for each in sorted(taken)[-2:]:
            used = memory.measure_peak(subject.runner_on_rows(each, edits).prime)
            subject.restore()
            if used is not None:
                few[each] = used
        if not few or predict_bytes(few, size) > memory.max_bytes:
            continue
        used = memory.measure_peak(
            subject.resident_runner(subject.original.with_step_edits(edits)).prime
        )
        if used is not None and used <= memory.max_bytes:
            return MemoryOverflow(
                error_message=said,
                fitting_rows=rows,
                segments=segments,
                peak_bytes=max(0, used - memory.initial_bytes),
                fitting_rows_peak_bytes=max(0, taken[rows] - memory.initial_bytes),
            )
        subject.restore()
    raise out_of_memory_error(
        said, "in as many segments as it can be cut in, there is no memory either"
    )


def _numbers(model: Any, least: int) -> Iterator[int]:
    """Of segments, twice as many each time, as long as more are made of the model."""
    segments, before = max(2, least), 0
    while segments <= _MOST:
        again = count_recomputed_segments(model, segments)
        if again > before:
            yield segments
        segments, before = 2 * segments, max(again, before)
