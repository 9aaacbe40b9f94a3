from __future__ import annotations

import math
import random

import pytest

from uncork.core.base.measurement import (
    MAX_GROUP_SIZE,
    compare,
    compare_groups,
    spread,
    t_quantile_95,
)

DRAWS = 400


def speeds(rng: random.Random, pairs: int, ratio: float, noise: float, drift: float = 0.0):
    """Speeds of base and candidate, with noise of each block and a drift that pairs share."""
    base, candidate, shared = [], [], 0.0
    for _ in range(pairs):
        shared += rng.gauss(0, drift)
        base.append(100 * math.exp(shared + rng.gauss(0, noise)))
        candidate.append(100 * ratio * math.exp(shared + rng.gauss(0, noise)))
    return base, candidate


def verdicts(pairs: int, ratio: float, noise: float, drift: float = 0.0, at_least: float = 1.0):
    rng = random.Random(20261 + pairs)
    return [
        compare(*speeds(rng, pairs, ratio, noise, drift), min_ratio=at_least).verdict
        for _ in range(DRAWS)
    ]


@pytest.mark.parametrize("pairs", range(3, 9))
@pytest.mark.parametrize("noise", [0.005, 0.05, 0.3])
def test_pure_noise_is_not_proven(pairs, noise):
    found = verdicts(pairs, 1.0, noise)
    assert found.count("not_proven") >= 0.93 * DRAWS
    assert found.count("faster") <= 0.045 * DRAWS


@pytest.mark.parametrize("pairs", range(3, 9))
def test_drift_falls_on_both_and_cancels(pairs):
    found = verdicts(pairs, 1.0, 0.02, drift=0.3)
    assert found.count("not_proven") >= 0.93 * DRAWS


@pytest.mark.parametrize("pairs", [6, 8])
def test_a_true_tenth_is_found_in_little_noise(pairs):
    assert verdicts(pairs, 1.1, 0.02).count("faster") >= 0.97 * DRAWS
    assert verdicts(pairs, 1 / 1.1, 0.02).count("slower") >= 0.97 * DRAWS


def test_a_true_tenth_is_mostly_found_in_three_pairs():
    found = verdicts(3, 1.1, 0.02)
    assert found.count("faster") >= 0.6 * DRAWS
    assert found.count("slower") == 0


@pytest.mark.parametrize("pairs", [3, 8])
def test_less_than_asked_for_is_not_faster(pairs):
    assert verdicts(pairs, 1.03, 0.01, at_least=1.03).count("faster") <= 0.05 * DRAWS


@pytest.mark.parametrize("pairs", range(3, 9))
def test_the_interval_covers_the_true_ratio(pairs):
    rng = random.Random(pairs)
    found = [compare(*speeds(rng, pairs, 1.25, 0.05)) for _ in range(DRAWS)]
    covered = sum(c.low <= 1.25 <= (c.high or math.inf) for c in found)
    assert covered >= 0.93 * DRAWS


def test_swapping_the_sides_inverts_the_ratio():
    base, candidate = [100.0, 104.0, 97.0, 99.0], [120.0, 118.0, 121.0, 119.0]
    one, other = compare(base, candidate), compare(candidate, base)
    assert one.ratio == pytest.approx(1 / other.ratio)
    assert one.low == pytest.approx(1 / other.high)
    assert (one.verdict, other.verdict) == ("faster", "slower")


def test_units_do_not_matter():
    base, candidate = [100.0, 104.0, 97.0, 99.0], [120.0, 118.0, 121.0, 119.0]
    scaled = compare([b * 1e6 for b in base], [c * 1e6 for c in candidate])
    assert scaled.low == pytest.approx(compare(base, candidate).low)


def test_one_pair_proves_nothing():
    found = compare([1.0], [1000.0])
    assert (found.verdict, found.low, found.high) == ("not_proven", 0.0, None)


def test_equal_speeds_are_no_gain():
    assert compare([5.0] * 4, [5.0] * 4).verdict == "not_proven"


def test_wild_speeds_do_not_overflow():
    found = compare([1e-300, 1.0], [1.0, 1e-300])
    assert found.verdict == "not_proven"
    assert math.isfinite(found.high)


@pytest.mark.parametrize(
    ("base", "candidate"),
    [([], []), ([1.0], []), ([1.0], [1.0, 2.0]), ([0.0], [1.0]), ([1.0], [-1.0])],
)
def test_what_cannot_be_paired_is_an_error(base, candidate):
    with pytest.raises(ValueError, match="paired positive speeds"):
        compare(base, candidate)


def test_a_spread_of_one_value_is_open():
    assert (spread([2.0]).low, spread([2.0]).high) == (0.0, None)


@pytest.mark.parametrize("n", range(2, 9))
def test_a_spread_covers_the_true_value(n):
    rng = random.Random(n)
    found = [spread([rng.gauss(1.0, 0.05) for _ in range(n)]) for _ in range(DRAWS)]
    assert sum(s.low <= 1.0 <= s.high for s in found) >= 0.9 * DRAWS


def test_students_quantiles():
    assert t_quantile_95(0) == math.inf
    assert (t_quantile_95(1), t_quantile_95(4), t_quantile_95(30), t_quantile_95(31)) == (
        12.706,
        2.776,
        2.042,
        1.96,
    )
    assert [t_quantile_95(d) for d in range(40)] == sorted(
        (t_quantile_95(d) for d in range(40)), reverse=True
    )


def sequential_verdict(rng: random.Random, ratio: float, noise: float, drift: float = 0.0):
    """What processes run in turn, A B B A and so on, come to, and how many pairs that takes."""
    base, candidate = [], []
    for process in range(2 * MAX_GROUP_SIZE):
        is_base = process % 4 in (0, 3)
        level = 100 if is_base else 100 * ratio
        speed = level * math.exp(rng.gauss(0, noise) + drift * process)
        (base if is_base else candidate).append(speed)
        if process % 2 and process > 1:
            found = compare_groups(base, candidate)
            if found.verdict != "not_proven":
                break
    return found.verdict, len(base)


@pytest.mark.every(3)
@pytest.mark.parametrize(("noise", "drift"), [(0.02, 0.0), (0.3, 0.0), (0.02, 0.05)])
def test_identical_processes_are_told_apart_in_one_of_twenty_runs(noise, drift):
    rng = random.Random(20_261_130)
    found = [sequential_verdict(rng, 1.0, noise, drift)[0] for _ in range(4000)]
    assert found.count("not_proven") >= 0.945 * len(found)


def test_a_large_gain_takes_two_pairs_a_small_one_more():
    rng = random.Random(51)
    large, small = (
        [sequential_verdict(rng, ratio, 0.07) for _ in range(400)] for ratio in (4.0, 1.3)
    )
    assert sum(found == ("faster", 2) for found in large) >= 0.95 * len(large)
    assert sum(verdict == "faster" for verdict, _ in small) >= 0.9 * len(small)
    assert sum(pairs > 2 for _, pairs in small) >= 0.5 * len(small)


@pytest.mark.parametrize(("base", "candidate"), [([1], [2]), ([1, 2], [3]), ([1] * 6, [2] * 6)])
def test_groups_have_two_to_five_processes_each(base, candidate):
    with pytest.raises(ValueError, match="need 2 to 5 of each"):
        compare_groups(base, candidate)
