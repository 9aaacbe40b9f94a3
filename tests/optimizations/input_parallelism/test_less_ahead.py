from __future__ import annotations

import pytest

from optimizations.situations import SITUATIONS, proposal, reason
from records import observed, stage
from uncork.core.base.record import replace
from uncork.core.edits.pipeline import LessAhead
from uncork.core.evidence.stage import INFINITE_LENGTH
from uncork.optimizations.input_parallelism.less_ahead import LessAheadOptimization

LESS = LessAheadOptimization()


def left_early(*, ahead=400, length=INFINITE_LENGTH, cpu_s=0.38):
    found = observed(
        stage(0, "map", 0.05, name="augment", length=length),
        stage(1, "prefetch", prefetched_elements=ahead, length=length, at="train.py:55"),
        shares={"input": 0.6, "step": 0.4},
        workload={"kind": "custom_loop", "steps_per_epoch": 50},
        consumer_cpu_s=0.06,
    )
    return replace(found, measurement=replace(found.measurement, cpu_s_per_step=cpu_s))


def test_a_long_buffer_that_is_left_early_is_shortened():
    found = proposal(LESS, left_early())
    assert found.edits == (LessAhead(stage=1, expected_digest="51ab"),)
    assert found.at == "train.py:55"
    assert found.predicted == pytest.approx(0.1 / 0.05, rel=0.01)
    assert "400 prefetched elements" in found.rationale


def test_all_that_work_in_vain_are_shortened_together():
    found = left_early()
    augment = replace(found.stages[0], prefetched_elements=256, parallelism=256)
    found = proposal(LESS, replace(found, stages=(augment, found.stages[1])))
    assert found.edits == (
        LessAhead(stage=0, expected_digest="51ab"),
        LessAhead(stage=1, expected_digest=""),
    )


def test_without_a_number_there_is_nothing_to_shorten():
    assert "has a fixed size" in reason(LESS, left_early(ahead=None))


@pytest.mark.parametrize("changes", [{"length": 50}, {"cpu_s": 0.1}])
def test_what_is_taken_stays(changes):
    assert reason(LESS, left_early(**changes)) == "the training reads all prefetched elements"


def test_little_waste_is_left_alone():
    assert "predicted gain" in reason(LESS, left_early(ahead=2))


@pytest.mark.parametrize("situation", ["arrays", "pydataset", "generator"])
def test_without_tf_data_nothing_is_prepared_by_it(situation):
    assert "not by tf.data" in reason(LESS, SITUATIONS[situation])
