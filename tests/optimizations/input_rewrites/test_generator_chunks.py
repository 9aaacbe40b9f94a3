from __future__ import annotations

import pytest

from optimizations.situations import SITUATIONS, WAITING, proposal, reason
from records import observed, stage
from uncork.core.edits.pipeline import GeneratorChunks
from uncork.core.evidence.stage import ChunkedCost
from uncork.optimizations.input_rewrites.generator_chunks import GeneratorChunksOptimization

CHUNKS = GeneratorChunksOptimization()
AT_ONCE = ChunkedCost(max_elements=64, cpu_s_per_element=0.009, wall_s_per_element=0.009)


def yielding(*, chunked=AT_ONCE):
    return observed(
        stage(0, "from_generator", 0.09, has_python_code=True, chunked_cost=chunked),
        stage(1, "batch"),
        shares=WAITING,
        workload={"pipeline_digest": "d1ge57"},
    )


def test_many_are_taken_at_once():
    found = proposal(CHUNKS, yielding())
    assert found.edits == (GeneratorChunks(stage=0, expected_digest="d1ge57", max_elements=64),)
    assert found.predicted == pytest.approx(0.09 / 0.01, rel=0.2)
    assert found.at == "train.py:20"
    assert "once for 64 elements" in found.rationale


def test_elements_that_take_long_by_themselves_are_left_alone():
    dear = ChunkedCost(max_elements=64, cpu_s_per_element=0.088, wall_s_per_element=0.088)
    assert "predicted gain" in reason(CHUNKS, yielding(chunked=dear))


def test_not_where_they_cannot_be_handed_over_so():
    assert "no short generator" in reason(CHUNKS, yielding(chunked=None))


@pytest.mark.parametrize("situation", ["pydataset", "arrays"])
def test_without_tf_data_there_is_nothing_to_hand_over(situation):
    assert "not by tf.data" in reason(CHUNKS, SITUATIONS[situation])
