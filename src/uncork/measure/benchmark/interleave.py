"""Two versions of one training measured in turn, A B B A, until the interval decides.

A noisy machine drifts; what runs next to each other drifts together. So speeds are compared only
within pairs of neighbouring blocks, and the pair's order alternates.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from uncork.core.base.measurement import Comparison, Measurement, compare, pairs_to_prove, spread

MIN_PAIRS = 3
# Seconds after which steps are too long for more pairs than two.
_MAX_FEW_PAIRS_S: Final = 15.0
# Without a second value nobody knows what is noise.
_FEWEST_ROUNDS: Final = 2
MAX_PAIRS = 16
MAX_PAIRS_UNTIL_BUDGET = 48
# Gains that the fewest pairs cannot vouch for, however well they agree, and how many times as many
# pairs then follow.
_DOUBTFUL: Final = (1.05, 1.5)
_MORE: Final = 2
# A candidate that loses this clearly, this many times and never wins, is given up unproven.
MAX_LOSING_RATIO = 0.9
MIN_LOST_PAIRS = 2
# Ends of epochs from which it can be told what passes between them.
_TELLING_ENDS: Final = 4


@dataclass(frozen=True)
class Block:
    """Some consecutive training steps.

    Attributes:
        steps: How many were timed.
        samples: How many samples they trained.
        wall_s: Elapsed seconds of the timed steps.
        cpu_s: CPU seconds of the whole process meanwhile.
        warmup_s: Seconds before the first timed step: new iterator, first batches.
        tracing_s: Seconds of the timed ones in which functions were traced.
        epoch_ends: How many epochs ended meanwhile, as far as that is known.
        between_epochs_s: Seconds of the timed ones between two epochs, where TensorFlow may wait
            for the thread that tunes a pipeline; None where it does not, or nobody knows.
        page_fault_s: CPU seconds in which the process was given memory that it had given back.
    """

    steps: int
    samples: float
    wall_s: float
    cpu_s: float
    warmup_s: float
    tracing_s: float = 0.0
    epoch_ends: int = 0
    between_epochs_s: float | None = None
    page_fault_s: float = 0.0

    @property
    def samples_per_s(self) -> float:
        """Speed of this block."""
        return self.samples / self.wall_s


class Runner(Protocol):
    """One version of a training, able to run some of its steps on demand."""

    def block(self, seconds: float) -> Block:
        """Run for about ``seconds``, from a fresh iterator, warm-up apart."""
        ...


@dataclass(frozen=True)
class Trial:
    """Base and candidate measured in one run, and what their comparison says."""

    base: Measurement
    candidate: Measurement
    comparison: Comparison


def summarize(blocks: Sequence[Block]) -> Measurement:
    """One measurement from several blocks."""
    return Measurement(
        samples_per_s=statistics.median(b.samples_per_s for b in blocks),
        step_s=spread([b.wall_s / b.steps for b in blocks]),
        cpu_s_per_step=statistics.median(b.cpu_s / b.steps for b in blocks),
        warmup_s=statistics.median(b.warmup_s for b in blocks),
        block_samples_per_s=tuple(b.samples_per_s for b in blocks),
        between_epochs_share=_between_epochs(blocks),
        page_fault_s_per_step=statistics.median(b.page_fault_s / b.steps for b in blocks),
    )


def _between_epochs(blocks: Sequence[Block]) -> float | None:
    """It is all or nothing, so a few ends tell little."""
    known = [b.between_epochs_s for b in blocks if b.between_epochs_s is not None]
    if len(known) < len(blocks) or sum(b.epoch_ends for b in blocks) < _TELLING_ENDS:
        return None
    return sum(known) / sum(b.wall_s for b in blocks)


def measure_blocks_interleaved(
    runners: Sequence[Runner], *, block_s: float, rounds: int, deadline_s: float = math.inf
) -> list[list[Block]]:
    """Blocks of several runners, forwards then backwards: what is in one round drifts together.

    Args:
        runners: What to measure.
        block_s: Seconds of one block.
        rounds: Blocks of each runner.
        deadline_s: By :func:`time.monotonic`; no round is begun after it, two at least are run.

    Returns:
        The blocks of each runner, in its place; the n-th ones ran in the same round.
    """
    found: list[list[Block]] = [[] for _ in runners]
    for turn in range(rounds):
        if turn >= _FEWEST_ROUNDS and time.monotonic() > deadline_s:
            break
        pairs = list(zip(runners, found, strict=True))
        for runner, blocks in pairs if turn % 2 == 0 else reversed(pairs):
            blocks.append(runner.block(block_s))
    return found


def compare_few_pairs(base: Runner, candidate: Runner, *, block_s: float) -> Trial:
    """The fewest pairs; twice as many more where those show a gain that they cannot vouch for.

    Three pairs agree by chance often enough: of a dozen comparisons in a diagnosis one would tell a
    gain that is none. And a gain that is one is often not proven by them. A large one is looked at
    twice then, which rules make up for: they ask for more than a gain that is proven.

    Args:
        base: The version to compare with.
        candidate: The version in question.
        block_s: Seconds of one block.
    """
    runners = (base, candidate)
    deadline_s = time.monotonic() + _MAX_FEW_PAIRS_S
    ours, theirs = measure_blocks_interleaved(
        runners, block_s=block_s, rounds=MIN_PAIRS, deadline_s=deadline_s
    )
    least, most = _DOUBTFUL
    few = _compare(ours, theirs, 1.0, looking=False)
    is_doubtful = few.ratio < most or few.verdict == "not_proven"
    if least < few.ratio and is_doubtful and time.monotonic() < deadline_s:
        more = measure_blocks_interleaved(runners, block_s=block_s, rounds=_MORE * MIN_PAIRS)
        ours, theirs = ([*a, *b] for a, b in zip((ours, theirs), more, strict=True))
    found = _compare(ours, theirs, 1.0, looking=False)
    return Trial(summarize(ours), summarize(theirs), found)


def interleave(
    base: Runner,
    candidate: Runner,
    *,
    block_s: float,
    budget_s: float,
    max_extended_s: float = 0.0,
    min_ratio: float = 1.0,
    clock: Callable[[], float] = time.monotonic,
) -> Trial:
    """Run both in turn until the comparison decides, the budget ends, or enough pairs are in.

    A gain that is likely to be proven by some more pairs gets them, as far as patience reaches.

    The interval accounts for looking after each pair: identical programs come out ``not_proven`` in
    95 % of all runs, however early the others end.

    Args:
        base: The version to beat.
        candidate: The version under trial.
        block_s: Seconds of one block.
        budget_s: Stop adding pairs after this many seconds; at least ``MIN_PAIRS`` run, unless the
            candidate loses clearly.
        max_extended_s: As long as it may take to prove a gain that was seen by then.
        min_ratio: Smallest ratio worth keeping.
        clock: Seconds; a fake one makes the stopping rule testable.
    """
    started = clock()
    ours: list[Block] = []
    theirs: list[Block] = []
    for pair in range(MAX_PAIRS):
        order = ((base, ours), (candidate, theirs))
        for runner, blocks in order if pair % 2 == 0 else order[::-1]:
            blocks.append(runner.block(block_s))
        if pair + 1 >= MIN_LOST_PAIRS and _lost(ours, theirs, min_ratio):
            break
        if pair + 1 >= MIN_PAIRS:
            found = _compare(ours, theirs, min_ratio)
            passed_s = clock() - started
            if _decided(found, min_ratio):
                break
            if passed_s > max(budget_s, _worth_s(found, min_ratio, passed_s, max_extended_s)):
                break
    found = _compare(ours, theirs, min_ratio)
    return Trial(summarize(ours), summarize(theirs), found)


def interleave_until_budget(
    base: Runner,
    candidate: Runner,
    *,
    block_s: float,
    budget_s: float,
    min_ratio: float = 1.0,
    clock: Callable[[], float] = time.monotonic,
) -> Trial:
    """As many pairs as the time allows, looked at once, at the end.

    Where noise is large and the time is there, this proves smaller gains than :func:`interleave`,
    which pays for the chance to stop early with an interval half as wide again.

    Args:
        base: The version to beat.
        candidate: The version under trial.
        block_s: Seconds of one block.
        budget_s: Stop adding pairs after this many seconds; at least ``MIN_PAIRS`` run, at most
            ``MAX_PAIRS_UNTIL_BUDGET``.
        min_ratio: Smallest ratio worth keeping.
        clock: Seconds.
    """
    started = clock()
    ours: list[Block] = []
    theirs: list[Block] = []
    while len(ours) < MAX_PAIRS_UNTIL_BUDGET:
        if len(ours) >= MIN_PAIRS and clock() - started > budget_s:
            break
        order = ((base, ours), (candidate, theirs))
        for runner, blocks in order if len(ours) % 2 == 0 else order[::-1]:
            blocks.append(runner.block(block_s))
    found = _compare(ours, theirs, min_ratio, looking=False)
    return Trial(summarize(ours), summarize(theirs), found)


def _decided(found: Comparison, at_least: float) -> bool:
    """More pairs would change nothing: it is faster, slower, or cannot be worth keeping."""
    hopeless = found.high is not None and found.high < at_least
    return found.verdict != "not_proven" or hopeless


def _worth_s(found: Comparison, at_least: float, passed_s: float, patience_s: float) -> float:
    """Seconds in which the gain found so far would be proven; 0 where patience ends before that."""
    pairs = pairs_to_prove(found, at_least, MAX_PAIRS)
    if pairs is None or passed_s / found.n * pairs > patience_s:
        return 0.0
    return patience_s


def _lost(base: list[Block], candidate: list[Block], at_least: float) -> bool:
    """It lost every time, by far. Giving up needs less evidence than keeping: nothing is harmed."""
    pairs = zip(*_speeds(base, candidate), strict=True)
    losing = MAX_LOSING_RATIO * min(1.0, at_least)  # some pay although their steps take longer
    return all(theirs < losing * ours for ours, theirs in pairs)


def _compare(
    base: list[Block], candidate: list[Block], at_least: float, *, looking: bool = True
) -> Comparison:
    as_they_are = ([b.samples_per_s for b in blocks] for blocks in (base, candidate))
    plain = compare(*as_they_are, min_ratio=at_least, is_sequential=looking)
    found = compare(*_speeds(base, candidate), min_ratio=at_least, is_sequential=looking)
    # What a version always loses between epochs is its own, however fast it is within them.
    return plain if found.verdict == "faster" and plain.ratio < 1.0 else found


def _speeds(base: list[Block], candidate: list[Block]) -> tuple[list[float], list[float]]:
    """samples/s of each block, with the mean of what all of them lost between epochs.

    There TensorFlow may wait for tf.data's tuning thread: not at all in one epoch, as long again as
    the epoch lasts in another. Such luck would hide what a version does within them.
    """
    both = (base, candidate)
    if any(b.between_epochs_s is None for blocks in both for b in blocks):
        return [b.samples_per_s for b in base], [b.samples_per_s for b in candidate]
    lost_s = sum(b.between_epochs_s or 0.0 for blocks in both for b in blocks)
    between_s = lost_s / sum(b.samples for blocks in both for b in blocks)
    ours, theirs = (
        [
            b.samples / (b.wall_s - (b.between_epochs_s or 0.0) + between_s * b.samples)
            for b in blocks
        ]
        for blocks in both
    )
    return ours, theirs
