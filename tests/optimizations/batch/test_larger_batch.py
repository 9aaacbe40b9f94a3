from __future__ import annotations

import pytest

from optimizations.situations import SITUATIONS, proposal, reason
from uncork.core.base.measurement import compare
from uncork.core.base.record import replace
from uncork.core.edits.pipeline import Rebatch
from uncork.core.edits.step import LargerBatch
from uncork.core.evidence.batches import BatchSizeTrial
from uncork.optimizations.batch.larger_batch import LargerBatchOptimization

LARGER = LargerBatchOptimization()
TRIED = SITUATIONS["larger batches tried"]


def sized(times, ratio, *, higher=0.0, price=1.0):
    return BatchSizeTrial(
        batch_multiplier=times,
        learning_rate_multiplier=times**0.5,
        speedup=compare([1.0, 1.0], [ratio, ratio]),
        samples_per_training=8192,
        baseline_loss=1.5,
        loss_increase=higher,
        loss_increase_error=0.02,
        loss_noise=0.01,
        samples_ratio=price,
    )


def tried(*sizes, **workload):
    return replace(TRIED, batch_size_trials=sizes, workload=replace(TRIED.workload, **workload))


def test_the_largest_that_was_not_seen_to_be_worse_is_tried():
    found = proposal(LARGER, tried(sized(2, 1.8), sized(4, 3.0), sized(8, 5.0, higher=0.03)))
    assert found.edits == (
        Rebatch(batch_multiplier=4, batch_size=4 * TRIED.workload.batch_size, expected_digest=""),
        LargerBatch(batch_multiplier=4, learning_rate_multiplier=2.0),
    )
    assert 1.05 < found.predicted <= 3.0
    assert found.source_edit.endswith("learning_rate=2 * learning_rate")


def test_arrays_are_cut_into_larger_batches():
    found = proposal(LARGER, tried(sized(2, 1.8), data_kind="numpy", pipeline_digest=""))
    assert found.edits == (LargerBatch(batch_multiplier=2, learning_rate_multiplier=2**0.5),)


def test_what_a_larger_batch_costs_in_samples_is_told():
    dear = sized(8, 4.0, higher=0.03, price=2.5)
    assert reason(LARGER, tried(sized(2, 1.8, higher=0.02, price=1.9), dear)) == (
        "8 batches in one train 4x as many samples a second, but need 2.5 times as many for "
        "the same loss"
    )
    never = sized(8, 4.0, higher=0.03, price=None)
    assert reason(LARGER, tried(never)).endswith("did not reach the same loss")


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        ({"kind": "custom_loop"}, "your own code"),
        ({"data_kind": "pydataset"}, "forms its batches itself"),
        ({"is_fit_in_loop": True}, "runs a few steps only"),
        ({"batch_callbacks": ("Logger",)}, "every batch"),
        ({"has_explicit_steps": True}, "steps_per_epoch"),
        ({"is_distributed": True}, "strategy"),
        ({"is_eager_step": True}, "eagerly"),
        ({"batch_size": None}, "Uncork could try none"),
    ],
)
def test_where_it_is_left_alone(workload, words):
    assert words in reason(LARGER, tried(sized(2, 1.8), **workload))


def test_a_step_of_the_user_s_own_may_use_the_rate_otherwise():
    own = replace(TRIED.workload.model, train_step_digest="c0de")
    assert "train_step" in reason(LARGER, tried(sized(2, 1.8), model=own))


def test_where_none_was_tried():
    assert "no larger batch" in reason(LARGER, tried())
