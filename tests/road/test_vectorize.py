from __future__ import annotations

import pytest

from records import observed, stage
from uncork.core.edit import VectorizeMap
from uncork.core.stage import Vectorized
from uncork.road.vectorize import VectorizeMaps

from .situations import SITUATIONS, WAITING, proposal, reason

VECTORIZE = VectorizeMaps()


def at_once(cost_s: float) -> Vectorized:
    return Vectorized(batch=32, cpu_s_per_element=cost_s, wall_s_per_element=cost_s)


def with_maps(*maps):
    stages = [stage(0, "range")]
    stages += [
        stage(i, "map", cost, name=f"map{i}", parallelism=1, vectorized=stacked)
        for i, (cost, stacked) in enumerate(maps, 1)
    ]
    return observed(*stages, stage(len(stages), "batch"), shares=WAITING)


def test_a_map_that_costs_less_at_once_is_moved_above_the_batch():
    found = proposal(VECTORIZE, with_maps((0.09, at_once(0.001))))
    assert found.edits == (VectorizeMap(stage=1, expects="51ab"),)
    assert found.predicted == pytest.approx(0.09 / 0.01, rel=0.01)
    assert "map1 called once" in found.why


def test_the_maps_above_it_must_be_moved_before():
    found = proposal(VECTORIZE, with_maps((0.09, at_once(0.001)), (0.001, at_once(0.001))))
    assert found.edits == (
        VectorizeMap(stage=2, expects="51ab"),
        VectorizeMap(stage=1, expects=""),
    )


def test_no_more_maps_are_moved_than_pay():
    found = proposal(VECTORIZE, with_maps((0.001, at_once(0.09)), (0.09, at_once(0.001))))
    assert [edit.stage for edit in found.edits] == [2]


def test_a_map_that_is_dearer_at_once_is_left_alone():
    assert "predicted gain" in reason(VECTORIZE, with_maps((0.01, at_once(0.09))))


def test_a_function_that_cannot_be_stacked_is_left_alone():
    assert "no map below a batch" in reason(VECTORIZE, with_maps((0.09, None)))


@pytest.mark.parametrize("situation", ["arrays", "pydataset", "generator"])
def test_without_tf_data_there_is_no_map(situation):
    assert "not by tf.data" in reason(VECTORIZE, SITUATIONS[situation])


def test_where_a_kernel_rounds_otherwise_it_promises_no_more():
    assert (VectorizeMaps.guarantee, VectorizeMaps.at_worst) == ("exact", "rounding")
