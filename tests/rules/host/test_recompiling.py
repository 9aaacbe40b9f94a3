from __future__ import annotations

import pytest

from records import MACHINE, observed
from uncork.core.base.record import replace
from uncork.core.evidence.batches import VaryingShapes
from uncork.core.evidence.loop import RecreatedFunction
from uncork.rules.host import recompiling

MANY = VaryingShapes(
    batch_count=10, shape_count=8, seen_once=6, seen_twice=2, compile_s_per_shape=1.0
)


def found(new, **workload):
    workload = {"steps_per_epoch": 20, "epochs": 5, **workload}
    return list(
        recompiling.find(observed(varying_shapes=new, step_s=0.1, workload=workload), MACHINE)
    )


def test_what_was_compiled_while_it_was_measured_is_no_part_of_a_step():
    workload, slow = {"steps_per_epoch": 20, "epochs": 5}, observed(step_s=0.1)
    ceilings = {
        n: slow.measurement.samples_per_s * by for n, by in (("consumer", 5), ("supply", 4))
    }
    seen = observed(varying_shapes=MANY, step_s=0.1, workload=workload, ceilings=ceilings)
    (finding,) = recompiling.find(seen, MACHINE)
    assert finding.upper_bound == pytest.approx((2.5 + 12) / 2.5)


def test_shapes_that_were_not_seen_yet_are_reckoned_with():
    """Chao's estimate: six seen once and two seen twice tell of five that were not seen."""
    assert MANY.expected_shape_count == 8 + 6 * 5 / (2 * 3)
    assert (
        VaryingShapes(
            batch_count=9, shape_count=3, seen_once=0, seen_twice=0, compile_s_per_shape=1.0
        ).expected_shape_count
        == 3
    )


def test_it_costs_what_compiling_comes_to_over_the_whole_training():
    (finding,) = found(MANY)
    assert finding.cause == "recompiling"
    assert finding.upper_bound == pytest.approx((10 + 12) / 10)
    assert finding.upper_bound_interval == pytest.approx((1.7, (10 + 99) / 10))
    assert finding.at == "train.py:33"
    assert "10 batches have 8 different shapes" in finding.evidence


def test_a_loop_of_one_s_own_is_told_what_to_type_there():
    (finding,) = found(replace(MANY, trace_s_per_shape=0.5), kind="custom_loop", model=None)
    assert "compiles the step for each shape, which takes 1.5e+03 ms" in finding.evidence
    assert finding.remedy.endswith("@tf.function without jit_compile")


@pytest.mark.parametrize(
    ("new", "workload"),
    [
        (None, {}),
        (
            VaryingShapes(
                batch_count=9, shape_count=3, seen_once=0, seen_twice=0, compile_s_per_shape=0.01
            ),
            {},
        ),
        (
            VaryingShapes(
                batch_count=9, shape_count=3, seen_once=0, seen_twice=0, compile_s_per_shape=1.0
            ),
            {"epochs": 50},
        ),
        (MANY, {"steps_per_epoch": None}),
    ],
)
def test_where_it_comes_to_little_or_nobody_knows_nothing_is_named(new, workload):
    assert found(new, **workload) == []


def in_each_epoch(first_s, **workload):
    work = {"kind": "custom_loop", "model": None, "steps_per_epoch": 20, **workload}
    made = RecreatedFunction(first_call_extra_s=first_s, at="train.py:9")
    return list(
        recompiling.find(observed(recreated_function=made, step_s=0.1, workload=work), MACHINE)
    )


def test_a_function_for_each_epoch_costs_what_it_takes_beside_one():
    (finding,) = in_each_epoch(3.0)
    assert (finding.cause, finding.at) == ("recompiling", "train.py:9")
    assert finding.upper_bound == pytest.approx((2.0 + 3.0) / 2.0)
    assert "takes 3 s; an epoch of 20 steps takes 2 s" in finding.evidence


@pytest.mark.parametrize(("first_s", "workload"), [(0.1, {}), (3.0, {"steps_per_epoch": None})])
def test_a_long_epoch_hardly_notices(first_s, workload):
    assert in_each_epoch(first_s, **workload) == []
