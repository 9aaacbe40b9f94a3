from __future__ import annotations

import math

import pytest

from records import observed
from uncork.core.base.measurement import compare
from uncork.core.base.record import replace
from uncork.core.costmodel.compile_time import compiling_comparison, compiling_of, with_compiling
from uncork.core.evidence.batches import NewShapes, PaddedShapes

PADDED = PaddedShapes(multiple=8, shapes=4, once=0, twice=0, larger=1.1)
MANY = NewShapes(batches=10, shapes=8, once=6, twice=2, compile_s=1.0)


def anew(new=MANY, **workload):
    work = {"steps_per_epoch": 20, "epochs": 5, **workload}
    return compiling_of(observed(new_shapes=new, step_s=0.1, workload=work))


def test_it_is_of_the_whole_training():
    found = anew()
    assert (found.steps_s, found.least_s, found.most_s) == (pytest.approx(10.0), 7.0, 99.0)
    assert found.likely_s == pytest.approx(12.0), "five shapes were not seen yet"
    assert (found.least_gain(), found.likely_gain()) == (pytest.approx(1.7), pytest.approx(2.2))


def test_batches_that_are_filled_up_leave_some_shapes_to_compile():
    seen = observed(
        new_shapes=replace(MANY, padded=(PADDED,)),
        step_s=0.1,
        workload={"steps_per_epoch": 20, "epochs": 5},
    )
    found = compiling_of(seen, 8)
    assert found.rest_s == 3.0
    assert found.likely_gain(0.8) == pytest.approx(22 / (10 / 0.8 + 3))
    assert found.least_gain(found.faster_for(1.2)) == pytest.approx(1.2)
    assert found.faster_for(100.0) == math.inf, "what is left to compile takes longer alone"


def test_a_loop_s_step_is_traced_for_each_shape_without_xla_too():
    seen = observed(
        new_shapes=replace(MANY, trace_s=0.5, padded=(PADDED,)),
        step_s=0.1,
        workload={"steps_per_epoch": 20, "epochs": 5},
    )
    assert compiling_of(seen, 8).likely_gain() == pytest.approx((10 + 18) / (10 + 3 * 1.5))
    assert compiling_of(seen).likely_gain() == pytest.approx((10 + 18) / (10 + 12 * 0.5))


def waiting(new=MANY, *, supply=10.0, **workload):
    """Of ten seconds in a hundred steps; from memory they take a quarter of that."""
    shares = {"input": 0.75, "host": 0.0, "step": 0.25}
    samples = observed().measurement.samples_per_s
    seen = observed(
        new_shapes=new,
        step_s=0.1,
        workload={"steps_per_epoch": 20, "epochs": 5, **workload},
        ceilings={"consumer": 4 * samples, "supply": samples * supply},
        shares=shares,
    )
    return with_compiling(seen)


def test_what_the_input_cannot_take_is_compiling():
    found = waiting()
    parts = (found.breakdown[part] for part in ("input", "step", "compile"))
    assert tuple(parts) == pytest.approx((0.1, 0.25, 0.65))
    assert sum(found.breakdown.values()) == pytest.approx(1.0)
    assert found.resident == pytest.approx(0.25)


def test_an_input_that_takes_all_of_it_is_waited_for():
    found = waiting(supply=1.2)
    assert found.breakdown["input"] == pytest.approx(0.75)
    assert found.breakdown.get("compile", 0.0) == 0.0


@pytest.mark.parametrize(("new", "workload"), [(None, {}), (MANY, {"epochs": 5_000})])
def test_where_compiling_comes_to_little_all_is_waiting(new, workload):
    assert "compile" not in waiting(new, **workload).breakdown


def test_a_short_training_has_no_more_shapes_than_steps():
    assert anew(steps_per_epoch=3, epochs=1).most_s == 2.0
    assert anew(steps_per_epoch=3, epochs=1).likely_s == 2.0


def test_nobody_knows_of_a_training_without_an_end_or_of_one_shape():
    assert anew(steps_per_epoch=None) is None
    assert anew(None) is None


def test_slower_steps_may_win_a_training_and_only_by_shapes_that_were_seen():
    found = compiling_comparison(anew(), compare([1.0, 1.0, 1.0], [0.9, 0.91, 0.89]))
    assert found.ratio == pytest.approx(2.2 * 0.9, rel=1e-3)
    assert found.low < 1.7 * 0.9 < found.ratio < found.high


@pytest.mark.parametrize(
    ("speed", "verdict"), [(0.9, "faster"), (0.5, "not_proven"), (0.1, "slower")]
)
def test_steps_are_too_slow_only_if_all_shapes_there_are_would_not_make_up_for_it(speed, verdict):
    part = compare([1.0] * 4, [speed] * 4, at_least=anew().faster_for(1.03))
    assert compiling_comparison(anew(), part).verdict == verdict
