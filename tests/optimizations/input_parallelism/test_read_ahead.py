from __future__ import annotations

import pytest

from optimizations.situations import WAITING, proposal, reason
from records import MACHINE, observed, stage
from uncork.core.base.record import replace
from uncork.core.documents.plan import Policy
from uncork.core.edits.pipeline import ReadAhead
from uncork.optimizations.input_parallelism.parallel_interleave import (
    ParallelInterleaveOptimization,
)
from uncork.optimizations.input_parallelism.read_ahead import ReadAheadOptimization

AHEAD = ReadAheadOptimization()


def reading(cost_s=0.09, **known):
    known = {"max_readers": 16, "max_input_elements": 400, "bytes_per_element": 1000} | known
    return observed(
        stage(0, "from_tensor_slices"),
        stage(1, "tfrecord", cost_s, **known),
        stage(2, "batch"),
        shares=WAITING,
    )


def test_each_core_gets_a_file_and_room_for_more_than_it_held():
    found = proposal(AHEAD, reading())
    assert found.edits == (
        ReadAhead(
            stage=1,
            expected_digest="51ab",
            readers=4,
            elements_per_reader=500,
            size_bytes=4 * 500 * 1_250,
        ),
    )
    assert found.at == "train.py:21"
    assert found.predicted > 3
    assert "cycle_length=4" in found.source_edit


def test_there_are_no_more_readers_than_files():
    (edit,) = proposal(AHEAD, reading(max_readers=2)).edits
    assert edit.readers == 2


@pytest.mark.parametrize(
    "unknown", [{"max_input_elements": None}, {"max_readers": None}, {"bytes_per_element": None}]
)
def test_files_of_which_not_enough_was_seen_are_left_alone(unknown):
    assert "the end of a file" in reason(AHEAD, reading(**unknown))


def test_where_one_has_no_room_another_may_have():
    large = stage(
        3, "flat_map", 0.08, max_readers=4, max_input_elements=400, bytes_per_element=1 << 28
    )
    both = replace(reading(), stages=(*reading().stages, large))
    (edit,) = proposal(AHEAD, both).edits
    assert edit.stage == 1


def test_what_is_held_must_have_room():
    large = reading(bytes_per_element=1 << 28)
    assert "GB of memory, the budget is" in reason(AHEAD, large)
    assert proposal(AHEAD, reading(), policy=Policy(memory_share=0.9))


def test_reading_that_keeps_up_is_left_alone():
    assert "predicted gain" in reason(AHEAD, reading(cost_s=0.0001))


def test_one_core_reads_no_faster():
    assert "predicted gain" in reason(AHEAD, reading(), machine=replace(MACHINE, cpus=1.0))


def test_an_interleave_is_another_matter():
    assert "no serial interleave" in reason(ParallelInterleaveOptimization(), reading())
