"""The stopping rule, on a clock that only the runners move."""

from __future__ import annotations

import itertools
import math
import random
import statistics
import time
from dataclasses import dataclass, field, replace

import pytest

from uncork.core.base.measurement import compare
from uncork.measure.benchmark.interleave import (
    MAX_PAIRS,
    MIN_LOST_PAIRS,
    MIN_PAIRS,
    Block,
    compare_few_pairs,
    interleave,
    interleave_until_budget,
    measure_blocks_interleaved,
    summarize,
)


@dataclass
class Clock:
    now: float = 0.0
    calls: list[str] = field(default_factory=list)

    def __call__(self) -> float:
        return self.now


@dataclass
class Fake:
    """Trains with the given speeds in turn, and takes a second longer than it was asked to."""

    clock: Clock
    name: str
    speeds: list[float]

    def __post_init__(self) -> None:
        self._turns = itertools.cycle(self.speeds)

    def block(self, seconds: float) -> Block:
        self.clock.calls.append(self.name)
        self.clock.now += seconds + 1.0
        speed = next(self._turns)
        steps = 10
        return Block(
            steps=steps, samples=steps * 32, wall_s=steps * 32 / speed, cpu_s=0.4, warmup_s=1.0
        )


def trial(base: list[float], candidate: list[float], budget_s: float = 1000.0, **kwargs):
    clock = Clock()
    runners = Fake(clock, "A", base), Fake(clock, "B", candidate)
    found = interleave(*runners, block_s=1.0, budget_s=budget_s, clock=clock, **kwargs)
    return found, "".join(clock.calls)


UNDECIDED = [100.0, 130.0, 90.0, 110.0]


def test_what_is_clear_is_decided_by_the_fewest_pairs():
    found, calls = trial([100.0, 101.0], [200.0, 201.0])
    assert found.comparison.verdict == "faster"
    assert calls == "ABBAAB"
    assert found.comparison.n == MIN_PAIRS


def test_a_loss_is_clear_even_sooner():
    found, calls = trial([200.0, 201.0], [100.0, 101.0])
    assert found.comparison.verdict == "slower"
    assert len(calls) == 2 * MIN_LOST_PAIRS


def test_one_win_among_losses_goes_on():
    _, calls = trial([200.0, 100.0], [100.0, 101.0])
    assert len(calls) > 2 * MIN_LOST_PAIRS


def test_what_loses_each_time_is_given_up_even_where_the_interval_is_wide():
    found, calls = trial([200.0, 200.0], [20.0, 150.0])
    assert found.comparison.verdict == "not_proven"
    assert len(calls) == 2 * MIN_LOST_PAIRS


def test_what_stays_unclear_ends_after_the_most_pairs():
    found, calls = trial(UNDECIDED, UNDECIDED[::-1])
    assert found.comparison.verdict == "not_proven"
    assert calls == "ABBA" * (MAX_PAIRS // 2)


@pytest.mark.parametrize(("budget_s", "pairs"), [(0.0, 3), (12.0, 4), (15.9, 4), (16.0, 5)])
def test_the_budget_ends_it_but_never_before_the_fewest_pairs(budget_s, pairs):
    _, calls = trial(UNDECIDED, UNDECIDED[::-1], budget_s)
    assert len(calls) == 2 * pairs


BETTER = [150.0, 170.0, 120.0, 140.0]


@pytest.mark.parametrize(("patience_s", "pairs"), [(0.0, 3), (15.9, 3), (16.0, 4), (100.0, 4)])
def test_a_gain_about_to_be_proven_gets_the_pairs_that_it_needs(patience_s, pairs):
    found, calls = trial(UNDECIDED, BETTER, 0.0, max_extended_s=patience_s)
    assert len(calls) == 2 * pairs
    assert found.comparison.verdict == ("faster" if pairs == 4 else "not_proven")


@pytest.mark.parametrize("candidate", [UNDECIDED[::-1], [90.0, 131.0, 80.0, 111.0]])
def test_patience_is_not_for_what_seems_to_gain_nothing(candidate):
    _, calls = trial(UNDECIDED, candidate, 0.0, max_extended_s=1000.0)
    assert len(calls) == 2 * MIN_PAIRS


def test_a_gain_too_small_to_keep_is_not_faster():
    base, candidate = [100.0, 100.1], [102.0, 102.1]
    assert trial(base, candidate)[0].comparison.verdict == "faster"
    found, calls = trial(base, candidate, min_ratio=1.03)
    assert found.comparison.verdict == "not_proven"
    assert len(calls) == 2 * MIN_PAIRS  # more pairs could not make it worth keeping


def test_with_patience_the_time_is_used_up_and_looked_at_once():
    clock = Clock()
    runners = Fake(clock, "A", [100.0, 101.0]), Fake(clock, "B", [200.0, 201.0])
    found = interleave_until_budget(*runners, block_s=1.0, budget_s=30.0, clock=clock)
    assert "".join(clock.calls) == "ABBA" * 4
    assert found.comparison.low == compare([100, 101] * 4, [200, 201] * 4).low


def test_patience_proves_what_many_looks_cannot():
    base, candidate = [100.0, 125.0, 85.0], [124.0, 117.0, 115.0]
    clock = Clock()
    runners = Fake(clock, "A", base), Fake(clock, "B", candidate)
    once = interleave_until_budget(
        *runners, block_s=1.0, budget_s=44.0, min_ratio=1.03, clock=clock
    ).comparison
    many = trial(base, candidate, min_ratio=1.03, budget_s=44.0)[0].comparison
    assert once.n <= many.n + 1
    assert (once.verdict, many.verdict) == ("faster", "not_proven")


def noisy(seed: int, ratio: float, noise: float):
    draw = random.Random(seed)
    speeds = ([r * math.exp(draw.gauss(0, noise)) for _ in range(MAX_PAIRS)] for r in (1.0, ratio))
    return trial(*speeds)[0].comparison


@pytest.mark.every(3)
@pytest.mark.parametrize("noise", [0.01, 0.1, 0.3])
def test_identical_programs_are_not_told_apart_however_often_one_looks(noise):
    found = [noisy(seed, 1.0, noise).verdict for seed in range(600)]
    assert found.count("not_proven") >= 0.93 * 600


def test_a_true_difference_is_found_in_time():
    found = [noisy(seed, 1.05, 0.02) for seed in range(200)]
    assert sum(c.verdict == "faster" for c in found) >= 0.97 * 200
    assert statistics.median(c.n for c in found) <= 8
    assert not any(c.verdict == "slower" for c in found)


def test_what_could_have_been_seen_is_stated():
    quiet, loud = noisy(1, 1.0, 0.01), noisy(1, 1.0, 0.2)
    assert quiet.verdict == loud.verdict == "not_proven"
    assert 1.0 < quiet.min_detectable_ratio < 1.05 < loud.min_detectable_ratio


def pair_up(base: list[float], candidate: list[float]):
    clock = Clock()
    runners = Fake(clock, "A", base), Fake(clock, "B", candidate)
    return compare_few_pairs(*runners, block_s=1.0).comparison, "".join(clock.calls)


@pytest.mark.parametrize("gain", [0.7, 1.0, 1.04, 1.6, 3.0])
def test_what_is_clear_or_nothing_takes_the_fewest_pairs(gain):
    found, calls = pair_up([100.0, 104.0], [gain * 100.0, gain * 103.0])
    assert calls == "ABBAAB"
    assert found.low == compare([100, 104, 100], [gain * 100, gain * 103, gain * 100]).low


def test_a_gain_by_luck_does_not_last():
    lucky = [110.0, 110.5, 111.0, *[100.0, 103.0, 99.0, 98.0, 104.0, 101.0]]
    found, calls = pair_up([100.0], lucky)
    assert len(calls) == 18
    assert compare([100.0] * 3, lucky[:3]).low > 1.05
    assert found.ratio < 1.05


@pytest.mark.parametrize("few", [[115.0, 145.0, 126.0], [120.0, 300.0, 210.0]])
def test_a_gain_that_few_pairs_cannot_prove_is_looked_at_again(few):
    found, calls = pair_up([100.0], few)
    assert len(calls) == 18
    assert found.verdict == "faster"
    assert compare([100.0] * 3, few).verdict == "not_proven"


@dataclass
class Waiting(Fake):
    """Ends an epoch in each block, and then waits or does not."""

    waits_s: list[float] = field(default_factory=list)
    knows: bool = True

    def block(self, seconds: float) -> Block:
        found = super().block(seconds)
        waited_s = self.waits_s[len(self.clock.calls) % len(self.waits_s)]
        known = {"epoch_ends": 1, "between_epochs_s": waited_s} if self.knows else {}
        return replace(found, wall_s=found.wall_s + waited_s, **known)


def test_what_waits_between_epochs_by_chance_does_not_hide_a_gain():
    waits_s, clock = [0.0, 3.2, 0.0, 0.0, 3.2], Clock()
    both = (Waiting(clock, "A", [100.0, 101.0], waits_s), Waiting(clock, "B", [200.0], waits_s))
    found = interleave(*both, block_s=1.0, budget_s=0.0, clock=clock)
    # 320 samples take 3.2 s and 1.6 s, and three of six blocks wait for 3.2 s.
    assert found.comparison.verdict == "faster"
    assert found.comparison.ratio == pytest.approx((3.2 + 1.6) / (1.6 + 1.6), rel=0.01)
    assert found.base.between_epochs_share is None  # three ends do not tell


def test_where_one_side_does_not_know_its_ends_they_count_as_they_are():
    waits_s, clock = [0.0, 3.2, 0.0, 0.0, 3.2], Clock()
    knows = Waiting(clock, "A", [100.0], waits_s)
    does_not = Waiting(clock, "B", [200.0], waits_s, knows=False)
    found = interleave(knows, does_not, block_s=1.0, budget_s=0.0, clock=clock)
    assert found.comparison.verdict == "not_proven"
    assert found.candidate.between_epochs_share is None


def test_what_one_side_always_loses_between_epochs_is_its_own():
    clock = Clock()
    steady = Waiting(clock, "A", [100.0], [0.0])
    loses = Waiting(clock, "B", [200.0], [2.0])
    found = interleave(steady, loses, block_s=1.0, budget_s=0.0, clock=clock)
    assert found.comparison.verdict != "faster"
    assert found.comparison.ratio == pytest.approx(3.2 / (1.6 + 2.0), rel=0.01)


@pytest.mark.parametrize("seed", range(20))
def test_bad_luck_between_epochs_of_one_side_alone_is_no_gain(seed):
    draw, clock = random.Random(seed), Clock()
    speeds = [100.0 * math.exp(draw.gauss(0, 0.02)) for _ in range(2 * MAX_PAIRS)]
    unlucky = Waiting(clock, "A", speeds[::2], [3.2])
    lucky = Waiting(clock, "B", speeds[1::2], [3.2, 3.2, 0.0, 3.2, 3.2])
    found = interleave(unlucky, lucky, block_s=1.0, budget_s=0.0, min_ratio=1.03, clock=clock)
    assert found.comparison.verdict != "faster"


def test_it_takes_some_ends_to_tell_what_passes_between_epochs():
    clock = Clock()
    runner = Waiting(clock, "A", [100.0], [0.0, 3.2])
    blocks = [runner.block(1.0) for _ in range(4)]
    assert summarize(blocks[:3]).between_epochs_share is None
    assert summarize(blocks).between_epochs_share == pytest.approx(2 * 3.2 / (4 * 3.2 + 2 * 3.2))


def test_neither_side_always_runs_first():
    _, calls = trial(UNDECIDED, UNDECIDED[::-1])
    pairs = [calls[i : i + 2] for i in range(0, len(calls), 2)]
    assert pairs.count("AB") == pairs.count("BA") == MAX_PAIRS // 2


def test_each_side_keeps_its_own_blocks():
    found, _ = trial([100.0], [250.0])
    assert found.base.block_samples_per_s == pytest.approx((100.0,) * 3)
    assert found.candidate.block_samples_per_s == pytest.approx((250.0,) * 3)
    assert found.comparison.ratio == pytest.approx(2.5)


def test_a_runner_that_breaks_breaks_the_trial():
    clock = Clock()

    class Broken:
        def block(self, seconds: float) -> Block:
            raise MemoryError

    with pytest.raises(MemoryError):
        interleave(Fake(clock, "A", [1.0]), Broken(), block_s=1.0, budget_s=1.0, clock=clock)


def block(speed: float, **changes) -> Block:
    fields = {"steps": 10, "samples": 320.0, "wall_s": 320 / speed, "cpu_s": 1.0, "warmup_s": 0.5}
    return Block(**{**fields, **changes})


def test_a_measurement_is_the_middle_of_its_blocks():
    found = summarize([block(100.0), block(400.0), block(200.0)])
    assert found.samples_per_s == pytest.approx(200.0)
    assert found.step_s.median == pytest.approx(0.16)
    assert found.step_s.n == 3
    assert found.cpu_s_per_step == pytest.approx(0.1)
    assert found.warmup_s == 0.5
    assert found.block_samples_per_s == pytest.approx((100.0, 400.0, 200.0))


def test_one_slow_block_does_not_move_the_middle():
    found = summarize([block(100.0), block(100.0), block(1.0)])
    assert found.samples_per_s == pytest.approx(100.0)


def test_one_block_has_no_interval():
    found = summarize([block(100.0)])
    assert found.step_s.high is None
    assert math.isfinite(found.step_s.median)


def test_what_pays_although_its_steps_are_slower_is_not_given_up():
    """XLA that compiles for minutes: steps without it need not be as fast."""
    assert trial([100.0, 100.0], [85.0, 85.0])[0].comparison.n == MIN_LOST_PAIRS
    found, _ = trial([100.0, 101.0], [85.0, 86.0], min_ratio=0.4)
    assert found.comparison.verdict == "faster"


@pytest.mark.parametrize(("left_s", "blocks"), [(-1.0, 2), (1000.0, 4)])
def test_no_third_round_is_begun_after_the_deadline(left_s, blocks):
    runners = [Fake(Clock(), name, [100.0]) for name in "AB"]
    deadline_s = time.monotonic() + left_s
    found = measure_blocks_interleaved(runners, block_s=1.0, rounds=4, deadline_s=deadline_s)
    assert [len(each) for each in found] == [blocks, blocks]
