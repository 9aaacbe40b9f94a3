from __future__ import annotations

import pytest

from records import observed, stage
from uncork.core.base.measurement import Spread
from uncork.rules.base.thresholds import format_ms, speedup_bound, speedup_interval, stage_label


def waiting(low: float, high: float | None):
    share = Spread(median=0.6, low=low, high=high, n=4)
    return observed(shares={"input": 0.6, "step": 0.4}, breakdown_intervals={"input": share})


def test_a_gain_is_as_uncertain_as_the_share_it_comes_from():
    low, high = speedup_interval(waiting(0.5, 0.7), "input", 2.5)  # all of the share is saved
    assert low == pytest.approx(2.0)
    assert high == pytest.approx(1 / 0.3)
    low, high = speedup_interval(waiting(0.3, 0.7), "input", 1 / 0.7)  # half of it
    assert low == pytest.approx(1 / 0.85)


def test_a_share_that_may_be_nothing_promises_nothing_for_sure():
    assert speedup_interval(waiting(-0.2, 0.7), "input", 2.5)[0] == 1.0


def test_a_share_that_may_be_all_has_an_end_nevertheless():
    assert speedup_interval(waiting(0.5, 1.4), "input", 2.5)[1] == pytest.approx(100)


def test_the_interval_of_a_very_large_gain_lies_around_it():
    low, high = speedup_interval(waiting(0.598, 0.7), "input", 206.0)
    assert low < 206 <= high
    assert low > 100


def test_without_an_interval_of_the_share_there_is_none():
    assert speedup_interval(waiting(0.5, None), "input", 2.5) is None
    assert speedup_interval(waiting(0.5, 0.7), "host", 2.5) is None


def test_a_bound_is_never_below_one():
    assert speedup_bound(0.1, 0.2) == 1.0
    assert speedup_bound(0.1, 0.05) == 2.0


def test_nothing_left_over_proves_nothing():
    assert speedup_bound(0.1, 0.0) == 1.0


def test_unknown_times_are_called_unknown():
    assert format_ms(None) == "unknown"
    assert format_ms(0) == "0 ms"


def test_a_stage_without_a_name_goes_by_its_kind():
    assert stage_label(stage(0, "map", name="load")) == "map(load)"
    assert stage_label(stage(0, "batch")) == "batch"
