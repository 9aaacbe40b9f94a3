from __future__ import annotations

from records import stage
from uncork.rules.evidence import bound, ms, place


def test_a_bound_is_never_below_one():
    assert bound(0.1, 0.2) == 1.0
    assert bound(0.1, 0.05) == 2.0


def test_nothing_left_over_proves_nothing():
    assert bound(0.1, 0.0) == 1.0


def test_unknown_times_are_called_unknown():
    assert ms(None) == "unknown"
    assert ms(0) == "0 ms"


def test_a_stage_without_a_name_goes_by_its_kind():
    assert place(stage(0, "map", name="load")) == "map(load)"
    assert place(stage(0, "batch")) == "batch"
