"""The claim "not worse by more than the noise", held against trainings whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from uncork.verify.criteria.noninferiority import MIN_POWER, noninferiority, pairs_needed

BASE = [0.80, 0.82, 0.78, 0.79]


def losses(rng, n, *, worse=0.0, noise):
    """The original's losses with a standard deviation of 1, and those of a candidate."""
    base = rng.normal(size=n)
    return list(base), list(base + worse + noise * rng.normal(size=n))


def shown(n, *, worse, noise, runs=2000):
    """Share of trainings let through."""
    rng = np.random.default_rng(0)
    pairs = (losses(rng, n, worse=worse, noise=noise) for _ in range(runs))
    return sum(noninferiority(*pair).is_shown for pair in pairs) / runs


def test_the_same_losses_are_no_worse():
    found = noninferiority(BASE, BASE)
    assert found.is_shown
    assert found.power == 1.0


def test_a_single_bad_run_is_reason_enough_to_doubt():
    assert not noninferiority(BASE, [0.80, 0.82, 0.78, 0.85]).is_shown


def test_lower_losses_are_welcome():
    assert noninferiority(BASE, [loss - 0.01 for loss in BASE]).is_shown


def test_the_margin_is_never_narrower_than_float32_rounds():
    flat = [2.0] * 4
    assert noninferiority(flat, [2.000001] * 4).is_shown
    assert not noninferiority(flat, [2.0001] * 4).is_shown


@pytest.mark.parametrize("n", [4, 8])
def test_a_loss_higher_by_the_margin_is_rarely_let_through(n):
    # The margin itself is estimated from few runs, so it is not the 2.5 % of a known one.
    assert shown(n, worse=1.0, noise=0.3) < 0.2
    assert shown(n, worse=1.5, noise=0.3) < 0.03


def test_the_stated_power_is_the_share_of_equals_let_through():
    rng = np.random.default_rng(1)
    stated = [noninferiority(*losses(rng, 8, noise=0.7)).power for _ in range(500)]
    assert np.mean(stated) == pytest.approx(shown(8, worse=0.0, noise=0.7), abs=0.1)


def test_more_noise_takes_more_pairs_up_to_a_limit():
    rng = np.random.default_rng(2)
    base, equal = losses(rng, 4, noise=1.0)
    differences = np.subtract(equal, base)
    scaled = [list(np.add(base, differences * factor)) for factor in (0.0, 0.3, 0.6, 50.0)]
    needed = [pairs_needed(base, other, 12) for other in scaled]
    assert needed == sorted(needed)
    assert needed[0] == 4
    assert needed[-1] == 12


def test_pairs_that_are_needed_give_the_power():
    n = pairs_needed(BASE, [0.81, 0.81, 0.79, 0.78], 12)
    assert 4 < n < 12
    again = noninferiority(BASE * 3, [0.81, 0.81, 0.79, 0.78] * 3)
    assert again.power >= MIN_POWER
