from __future__ import annotations

import pytest

from records import MACHINE, observed
from uncork.core.base.record import replace
from uncork.core.evidence.batches import NewShapes
from uncork.core.evidence.loop import Remade
from uncork.rules.host import recompiling

MANY = NewShapes(batches=10, shapes=8, once=6, twice=2, compile_s=1.0)


def found(new, **workload):
    workload = {"steps_per_epoch": 20, "epochs": 5, **workload}
    return list(recompiling.find(observed(new_shapes=new, step_s=0.1, workload=workload), MACHINE))


def test_what_was_compiled_while_it_was_measured_is_no_part_of_a_step():
    workload, slow = {"steps_per_epoch": 20, "epochs": 5}, observed(step_s=0.1)
    ceilings = {
        n: slow.measurement.samples_per_s * by for n, by in (("consumer", 5), ("supply", 4))
    }
    seen = observed(new_shapes=MANY, step_s=0.1, workload=workload, ceilings=ceilings)
    (finding,) = recompiling.find(seen, MACHINE)
    assert finding.upper_bound == pytest.approx((2.5 + 12) / 2.5)


def test_shapes_that_were_not_seen_yet_are_reckoned_with():
    """Chao's estimate: six seen once and two seen twice tell of five that were not seen."""
    assert MANY.expected == 8 + 6 * 5 / (2 * 3)
    assert NewShapes(batches=9, shapes=3, once=0, twice=0, compile_s=1.0).expected == 3


def test_it_costs_what_compiling_comes_to_over_the_whole_training():
    (finding,) = found(MANY)
    assert finding.cause == "recompiling"
    assert finding.upper_bound == pytest.approx((10 + 12) / 10)
    assert finding.interval == pytest.approx((1.7, (10 + 99) / 10))
    assert finding.at == "train.py:33"
    assert "10 batches have 8 different shapes" in finding.evidence


def test_a_loop_of_one_s_own_is_told_what_to_type_there():
    (finding,) = found(replace(MANY, trace_s=0.5), kind="custom_loop", model=None)
    assert "compiles the step anew for each, which takes 1.5e+03 ms" in finding.evidence
    assert finding.remedy.endswith("@tf.function without jit_compile")


@pytest.mark.parametrize(
    ("new", "workload"),
    [
        (None, {}),
        (NewShapes(batches=9, shapes=3, once=0, twice=0, compile_s=0.01), {}),
        (NewShapes(batches=9, shapes=3, once=0, twice=0, compile_s=1.0), {"epochs": 50}),
        (MANY, {"steps_per_epoch": None}),
    ],
)
def test_where_it_comes_to_little_or_nobody_knows_nothing_is_named(new, workload):
    assert found(new, **workload) == []


def in_each_epoch(first_s, **workload):
    work = {"kind": "custom_loop", "model": None, "steps_per_epoch": 20, **workload}
    made = Remade(first_s=first_s, at="train.py:9")
    return list(recompiling.find(observed(remade=made, step_s=0.1, workload=work), MACHINE))


def test_a_function_for_each_epoch_costs_what_it_takes_beside_one():
    (finding,) = in_each_epoch(3.0)
    assert (finding.cause, finding.at) == ("recompiling", "train.py:9")
    assert finding.upper_bound == pytest.approx((2.0 + 3.0) / 2.0)
    assert "takes 3 s, and an epoch of 20 steps takes 2 s" in finding.evidence


@pytest.mark.parametrize(("first_s", "workload"), [(0.1, {}), (3.0, {"steps_per_epoch": None})])
def test_a_long_epoch_hardly_notices(first_s, workload):
    assert in_each_epoch(first_s, **workload) == []
