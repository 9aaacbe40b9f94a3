from __future__ import annotations

import math

import pytest

from records import observed
from uncork.core.base.measurement import compare
from uncork.core.base.record import replace
from uncork.core.costmodel.compile_time import (
    compile_comparison,
    estimate_compile_time,
    with_compile_share,
)
from uncork.core.evidence.batches import PaddedShapes, VaryingShapes

PADDED = PaddedShapes(multiple=8, shape_count=4, seen_once=0, seen_twice=0, size_ratio=1.1)
MANY = VaryingShapes(
    batch_count=10, shape_count=8, seen_once=6, seen_twice=2, compile_s_per_shape=1.0
)


def anew(new=MANY, **workload):
    work = {"steps_per_epoch": 20, "epochs": 5, **workload}
    return estimate_compile_time(observed(varying_shapes=new, step_s=0.1, workload=work))


def test_it_is_of_the_whole_training():
    found = anew()
    assert (found.steps_s, found.min_compile_s, found.max_compile_s) == (
        pytest.approx(10.0),
        7.0,
        99.0,
    )
    assert found.expected_compile_s == pytest.approx(12.0), "five shapes were not seen yet"
    assert (found.min_gain(), found.expected_gain()) == (pytest.approx(1.7), pytest.approx(2.2))


def test_batches_that_are_filled_up_leave_some_shapes_to_compile():
    seen = observed(
        varying_shapes=replace(MANY, padded_shapes=(PADDED,)),
        step_s=0.1,
        workload={"steps_per_epoch": 20, "epochs": 5},
    )
    found = estimate_compile_time(seen, 8)
    assert found.remaining_s == 3.0
    assert found.expected_gain(0.8) == pytest.approx(22 / (10 / 0.8 + 3))
    assert found.min_gain(found.step_speedup_for(1.2)) == pytest.approx(1.2)
    assert found.step_speedup_for(100.0) == math.inf, "what is left to compile takes longer alone"


def test_a_loop_s_step_is_traced_for_each_shape_without_xla_too():
    seen = observed(
        varying_shapes=replace(MANY, trace_s_per_shape=0.5, padded_shapes=(PADDED,)),
        step_s=0.1,
        workload={"steps_per_epoch": 20, "epochs": 5},
    )
    assert estimate_compile_time(seen, 8).expected_gain() == pytest.approx(
        (10 + 18) / (10 + 3 * 1.5)
    )
    assert estimate_compile_time(seen).expected_gain() == pytest.approx((10 + 18) / (10 + 12 * 0.5))


def waiting(new=MANY, *, supply=10.0, **workload):
    """Of ten seconds in a hundred steps; from memory they take a quarter of that."""
    shares = {"input": 0.75, "host": 0.0, "step": 0.25}
    samples = observed().measurement.samples_per_s
    seen = observed(
        varying_shapes=new,
        step_s=0.1,
        workload={"steps_per_epoch": 20, "epochs": 5, **workload},
        ceilings={"consumer": 4 * samples, "supply": samples * supply},
        shares=shares,
    )
    return with_compile_share(seen)


def test_what_the_input_cannot_take_is_compiling():
    found = waiting()
    parts = (found.breakdown[part] for part in ("input", "step", "compile"))
    assert tuple(parts) == pytest.approx((0.1, 0.25, 0.65))
    assert sum(found.breakdown.values()) == pytest.approx(1.0)
    assert found.resident_share == pytest.approx(0.25)


def test_an_input_that_takes_all_of_it_is_waited_for():
    found = waiting(supply=1.2)
    assert found.breakdown["input"] == pytest.approx(0.75)
    assert found.breakdown.get("compile", 0.0) == 0.0


@pytest.mark.parametrize(("new", "workload"), [(None, {}), (MANY, {"epochs": 5_000})])
def test_where_compiling_comes_to_little_all_is_waiting(new, workload):
    assert "compile" not in waiting(new, **workload).breakdown


def test_a_short_training_has_no_more_shapes_than_steps():
    assert anew(steps_per_epoch=3, epochs=1).max_compile_s == 2.0
    assert anew(steps_per_epoch=3, epochs=1).expected_compile_s == 2.0


def test_nobody_knows_of_a_training_without_an_end_or_of_one_shape():
    assert anew(steps_per_epoch=None) is None
    assert anew(None) is None


def test_slower_steps_may_win_a_training_and_only_by_shapes_that_were_seen():
    found = compile_comparison(anew(), compare([1.0, 1.0, 1.0], [0.9, 0.91, 0.89]))
    assert found.ratio == pytest.approx(2.2 * 0.9, rel=1e-3)
    assert found.low < 1.7 * 0.9 < found.ratio < found.high


@pytest.mark.parametrize(
    ("speed", "verdict"), [(0.9, "faster"), (0.5, "not_proven"), (0.1, "slower")]
)
def test_steps_are_too_slow_only_if_all_shapes_there_are_would_not_make_up_for_it(speed, verdict):
    part = compare([1.0] * 4, [speed] * 4, min_ratio=anew().step_speedup_for(1.03))
    assert compile_comparison(anew(), part).verdict == verdict
