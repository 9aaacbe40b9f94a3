from __future__ import annotations

import pytest

from optimizations.situations import SITUATIONS, proposal, reason
from records import observed, stage
from uncork.core.edits.pipeline import Prefetch
from uncork.core.evidence.stage import AUTOTUNE
from uncork.optimizations.input_parallelism.prefetch import PrefetchOptimization

PREFETCH = PrefetchOptimization()
# The input takes as long as the step, and the two take turns.
IN_TURN = {"input": 0.5, "step": 0.5}
OFF = {"has_default_rewrites": False}


def ending_in(*stages, shares=None, **workload):
    shown = (stage(0, "map", 0.05, parallelism=AUTOTUNE), *stages)
    return observed(*shown, shares=shares or IN_TURN, workload={**OFF, **workload})


def test_input_and_step_in_turn_are_made_to_overlap():
    found = proposal(PREFETCH, ending_in(stage(1, "batch")))
    assert found.edits == (Prefetch(expected_digest="51ab"),)
    assert found.predicted == pytest.approx(2.0, rel=0.1)
    assert found.at == "train.py:21"


def test_options_behind_the_batch_are_looked_through():
    assert proposal(PREFETCH, ending_in(stage(1, "batch"), stage(2, "options"))).at == "train.py:21"


def test_a_custom_loop_gets_one_too():
    assert proposal(PREFETCH, ending_in(stage(1, "batch"), kind="custom_loop", model=None))


@pytest.mark.parametrize("behind", [(), (stage(2, "options"),)])
def test_one_is_enough(behind):
    assert "already" in reason(PREFETCH, ending_in(stage(1, "prefetch"), *behind))


def test_one_in_the_middle_does_not_count():
    assert proposal(PREFETCH, ending_in(stage(1, "prefetch"), stage(2, "batch")))


def test_tensorflow_s_own_is_relied_on():
    assert "automatically" in reason(
        PREFETCH, ending_in(stage(1, "batch"), has_default_rewrites=True)
    )


def test_an_input_that_cannot_overlap_is_left_alone():
    waiting = {"input": 0.99, "step": 0.01}
    slow = observed(stage(0, "map", 0.1, parallelism=1), shares=waiting, workload=OFF)
    assert "predicted gain" in reason(PREFETCH, slow)


def test_a_step_that_does_not_wait_is_left_alone():
    quick = observed(stage(0, "batch", 1e-5), shares={"step": 1.0}, workload=OFF)
    assert "predicted gain" in reason(PREFETCH, quick)


@pytest.mark.parametrize("situation", ["arrays", "pydataset", "generator"])
def test_without_tf_data_there_is_no_end_to_it(situation):
    assert "not by tf.data" in reason(PREFETCH, SITUATIONS[situation])
