from __future__ import annotations

import pytest

from optimizations.situations import WAITING, proposal, reason
from records import MACHINE, observed, stage
from uncork.core.base.record import replace
from uncork.core.edits.pipeline import DrawFirst
from uncork.core.evidence.stage import RandomPart
from uncork.optimizations.input_parallelism.draw_first import DrawFirstOptimization

DRAW = DrawFirstOptimization()


def augmenting(draws_s=0.0001, cost_s=0.09):
    draws = (
        None if draws_s is None else RandomPart(deterministic_op_count=7, cpu_s_per_element=draws_s)
    )
    return observed(
        stage(0, "from_tensor_slices"),
        stage(1, "map", cost_s, name="augment", parallelism=1, is_random=True, random_part=draws),
        stage(2, "batch"),
        shares=WAITING,
    )


def test_the_work_gets_all_cores():
    found = proposal(DRAW, augmenting())
    assert found.edits == (DrawFirst(stage=1, expected_digest="51ab"),)
    assert found.at == "train.py:21"
    assert found.predicted > 3
    assert "7 ops of augment" in found.rationale


def test_what_the_draws_cost_stays_serial():
    half = proposal(DRAW, augmenting(draws_s=0.045)).predicted
    assert half == pytest.approx(2.0, rel=0.15)


@pytest.mark.parametrize("draws_s", [0.089, 0.09, 0.2])
def test_a_map_that_does_nothing_but_draw_is_left_alone(draws_s):
    assert "predicted gain" in reason(DRAW, augmenting(draws_s))


def test_without_draws_there_is_nothing_to_do():
    assert "no serial map" in reason(DRAW, augmenting(None))


def test_one_core_works_no_faster():
    assert "predicted gain" in reason(DRAW, augmenting(), machine=replace(MACHINE, cpus=1.0))
