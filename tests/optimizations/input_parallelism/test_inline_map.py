from __future__ import annotations

import pytest

from optimizations.situations import SITUATIONS, WAITING, proposal, reason
from records import observed, stage
from uncork.core.edits.pipeline import InlineMap
from uncork.core.evidence.stage import AUTOTUNE, InlinedCost
from uncork.optimizations.input_parallelism.inline_map import InlineMapOptimization

INLINE = InlineMapOptimization()


def inline(cost_s: float) -> InlinedCost:
    return InlinedCost(cpu_s_per_element=cost_s, wall_s_per_element=cost_s)


def with_maps(*maps, parallelism=1):
    stages = [stage(0, "range")]
    stages += [
        stage(i, "map", cost, name=f"map{i}", parallelism=parallelism, inlined_cost=here)
        for i, (cost, here) in enumerate(maps, 1)
    ]
    return observed(*stages, stage(len(stages), "batch"), shares=WAITING)


def test_a_map_whose_calls_cost_more_than_its_work_is_run_inline():
    found = proposal(INLINE, with_maps((0.09, inline(0.001))))
    assert found.edits == (InlineMap(stage=1, expected_digest="51ab"),)
    assert found.predicted == pytest.approx(0.09 / 0.01, rel=0.01)
    assert "the thread that reads their elements runs map1" in found.rationale
    assert found.at == "train.py:21"


def test_of_several_the_highest_is_changed_first():
    """What is put above a map leaves the numbers of the stages below it."""
    found = proposal(INLINE, with_maps((0.09, inline(0.001)), (0.05, inline(0.001))))
    assert found.edits == (
        InlineMap(stage=2, expected_digest="51ab"),
        InlineMap(stage=1, expected_digest=""),
    )


def test_one_that_gains_nothing_stays_where_it_is():
    found = proposal(INLINE, with_maps((0.09, inline(0.001)), (0.05, inline(0.05))))
    assert [edit.stage for edit in found.edits] == [1]


def test_one_that_is_mostly_work_is_left_to_all_cores():
    """However little the training waits for it as it is."""
    found = proposal(INLINE, with_maps((0.09, inline(0.001)), (0.005, inline(0.004))))
    assert [edit.stage for edit in found.edits] == [1]


def test_work_that_several_cores_share_is_not_taken_from_them():
    assert "predicted gain" in reason(INLINE, with_maps((0.09, inline(0.08)), parallelism=AUTOTUNE))


def test_a_parallel_map_that_is_all_calls_is():
    found = proposal(INLINE, with_maps((0.2, inline(0.001)), parallelism=AUTOTUNE))
    assert [edit.stage for edit in found.edits] == [1]


def test_maps_that_must_stay_where_they_are_do():
    assert "no map that its consumer" in reason(INLINE, with_maps((0.09, None)))


@pytest.mark.parametrize("situation", ["arrays", "pydataset", "generator"])
def test_without_tf_data_there_is_no_map(situation):
    assert "not by tf.data" in reason(INLINE, SITUATIONS[situation])
