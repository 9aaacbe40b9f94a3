from __future__ import annotations

import pytest

from optimizations.situations import AUGMENTING, PREFIX, SITUATIONS, WAITING, proposal, reason
from records import observed, stage
from uncork.core.base.machine import Machine
from uncork.core.base.record import replace
from uncork.core.edits.pipeline import ParallelMap, SplitMap
from uncork.core.evidence.stage import AUTOTUNE
from uncork.optimizations.input_parallelism.parallelize_prefix import ParallelizePrefixOptimization

SPLIT = ParallelizePrefixOptimization()
DRAWING = AUGMENTING[2]


def with_stages(*stages):
    return observed(*stages, shares=WAITING)


def test_a_serial_drawing_map_is_split():
    found = proposal(SPLIT, SITUATIONS["waiting for input"])
    assert found.edits == (SplitMap(stage=2, expected_digest="51ab"),)
    assert found.at == "train.py:22"
    assert "9 deterministic ops of load" in found.rationale
    assert found.predicted == pytest.approx(0.09 / 0.025, rel=0.1)


def test_the_map_that_wins_most_is_chosen():
    cheap = replace(DRAWING, index=1, cpu_s_per_element=0.01, wall_s_per_element=0.01)
    assert proposal(SPLIT, with_stages(cheap, DRAWING)).edits[0].stage == 2


def test_one_epoch_is_no_obstacle():
    assert proposal(SPLIT, SITUATIONS["one epoch"])


def test_a_custom_loop_s_input_is_split_too():
    assert proposal(SPLIT, SITUATIONS["custom loop"])


@pytest.mark.parametrize("parallelism", [AUTOTUNE, 8])
def test_a_parallel_map_is_left_alone(parallelism):
    diagnosis = with_stages(replace(DRAWING, parallelism=parallelism))
    assert "no serial map" in reason(SPLIT, diagnosis)


def test_a_serial_map_that_draws_nothing_runs_in_parallel_as_a_whole():
    looking_up = replace(DRAWING, is_random=False, deterministic_prefix=None)
    found = proposal(SPLIT, with_stages(looking_up))
    assert found.edits == (ParallelMap(stage=2, expected_digest="51ab"),)
    assert found.predicted == pytest.approx(0.09 / 0.025, rel=0.1)


def test_python_stays_where_it_is():
    calling = replace(DRAWING, is_random=False, deterministic_prefix=None, has_python_code=True)
    assert "no serial map" in reason(SPLIT, with_stages(calling))


def test_a_map_that_draws_from_the_first_op_is_left_alone():
    assert "no serial map" in reason(
        SPLIT, with_stages(replace(DRAWING, deterministic_prefix=None))
    )


def test_a_prefix_that_costs_nothing_is_left_alone():
    diagnosis = with_stages(
        replace(DRAWING, deterministic_prefix=replace(PREFIX, cpu_s_per_element=0.001))
    )
    assert "predicted gain" in reason(SPLIT, diagnosis)


def test_one_core_has_no_second_thread():
    one = Machine(cpus=1.0, cpu_model="x", memory_bytes=1)
    assert "predicted gain" in reason(SPLIT, SITUATIONS["waiting for input"], machine=one)


@pytest.mark.parametrize("situation", ["arrays", "pydataset", "generator"])
def test_without_tf_data_there_is_nothing_to_split(situation):
    assert "not by tf.data" in reason(SPLIT, SITUATIONS[situation])


def test_an_unreadable_pipeline_is_called_so():
    assert "are unknown" in reason(SPLIT, SITUATIONS["no stages"])


def test_a_serial_map_behind_a_slower_thread_is_left_alone():
    slower = stage(3, "batch", 0.5)
    buffered = stage(4, "prefetch")
    assert "predicted gain" in reason(SPLIT, with_stages(DRAWING, buffered, slower))
