from __future__ import annotations

import pytest

from optimizations.situations import SITUATIONS, WAITING, proposal, reason
from records import observed, stage
from uncork.core.edits.pipeline import VectorizeMap
from uncork.core.evidence.stage import ShuffleBuffer, VectorizedCost
from uncork.optimizations.input_rewrites.vectorize import VectorizeOptimization

VECTORIZE = VectorizeOptimization()


def at_once(cost_s: float) -> VectorizedCost:
    return VectorizedCost(batch_size=32, cpu_s_per_element=cost_s, wall_s_per_element=cost_s)


def with_maps(*maps):
    stages = [stage(0, "range")]
    stages += [
        stage(i, "map", cost, name=f"map{i}", parallelism=1, vectorized_cost=stacked)
        for i, (cost, stacked) in enumerate(maps, 1)
    ]
    return observed(*stages, stage(len(stages), "batch"), shares=WAITING)


def test_a_map_that_costs_less_at_once_is_moved_above_the_batch():
    found = proposal(VECTORIZE, with_maps((0.09, at_once(0.001))))
    assert found.edits == (VectorizeMap(stage=1, expected_digest="51ab"),)
    assert found.predicted == pytest.approx(0.09 / 0.01, rel=0.01)
    assert "calls map1 once" in found.rationale


def test_the_maps_above_it_must_be_moved_before():
    found = proposal(VECTORIZE, with_maps((0.09, at_once(0.001)), (0.001, at_once(0.001))))
    assert found.edits == (
        VectorizeMap(stage=2, expected_digest="51ab"),
        VectorizeMap(stage=1, expected_digest=""),
    )


def test_no_more_maps_are_moved_than_pay():
    found = proposal(VECTORIZE, with_maps((0.001, at_once(0.09)), (0.09, at_once(0.001))))
    assert [edit.stage for edit in found.edits] == [2]


def test_a_map_that_is_dearer_at_once_is_left_alone():
    assert "predicted gain" in reason(VECTORIZE, with_maps((0.01, at_once(0.09))))


def test_a_function_that_cannot_be_stacked_is_left_alone():
    assert "no map before a batch" in reason(VECTORIZE, with_maps((0.09, None)))


def half(first_bytes: int) -> VectorizedCost:
    return VectorizedCost(
        batch_size=32,
        cpu_s_per_element=0.001,
        wall_s_per_element=0.001,
        unbatched_bytes=first_bytes,
        unbatched_ops=("DecodeWav", "ReadFile"),
    )


def test_of_a_map_that_begins_with_decoding_the_rest_is_moved():
    found = proposal(VECTORIZE, with_maps((0.09, half(4))))
    assert found.edits == (VectorizeMap(stage=1, expected_digest="51ab"),)
    assert "calls map1, what follows DecodeWav and ReadFile in it, once" in found.rationale
    assert "read_and_decode" in found.source_edit


def test_a_shuffle_must_have_room_for_what_stays_before_the_batch():
    def sounds(first_bytes):
        shuffle = ShuffleBuffer(
            element_count=100_000,
            elements_per_pass=100_000,
            movable_maps=(1,),
            bytes_per_element=40,
        )
        return observed(
            stage(0, "range", bytes_per_element=40),
            stage(
                1,
                "map",
                0.09,
                parallelism=1,
                bytes_per_element=400,
                vectorized_cost=half(first_bytes),
            ),
            stage(2, "shuffle", shuffle_buffer=shuffle),
            stage(3, "batch"),
            shares=WAITING,
        )

    assert proposal(VECTORIZE, sounds(400)).edits
    assert "would hold 40.0 GB" in reason(VECTORIZE, sounds(400_000))


@pytest.mark.parametrize("situation", ["arrays", "pydataset", "generator"])
def test_without_tf_data_there_is_no_map(situation):
    assert "not by tf.data" in reason(VECTORIZE, SITUATIONS[situation])


def test_where_a_kernel_rounds_otherwise_it_promises_no_more():
    assert (VectorizeOptimization.guarantee, VectorizeOptimization.fallback_guarantee) == (
        "exact",
        "rounding",
    )
