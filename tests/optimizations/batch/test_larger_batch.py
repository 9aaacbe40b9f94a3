from __future__ import annotations

import pytest

from optimizations.situations import SITUATIONS, proposal, reason
from uncork.core.base.measurement import compare
from uncork.core.base.record import replace
from uncork.core.edits.pipeline import Rebatch
from uncork.core.edits.step import LargerBatch
from uncork.core.evidence.batches import BatchSize
from uncork.optimizations.batch.larger_batch import TrainInLargerBatches

LARGER = TrainInLargerBatches()
TRIED = SITUATIONS["larger batches tried"]


def sized(times, ratio, *, higher=0.0, price=1.0):
    return BatchSize(
        times=times,
        rate=times**0.5,
        faster=compare([1.0, 1.0], [ratio, ratio]),
        samples=8192,
        loss=1.5,
        higher=higher,
        error=0.02,
        noise=0.01,
        price=price,
    )


def tried(*sizes, **workload):
    return replace(TRIED, batch_sizes=sizes, workload=replace(TRIED.workload, **workload))


def test_the_largest_that_was_not_seen_to_be_worse_is_tried():
    found = proposal(LARGER, tried(sized(2, 1.8), sized(4, 3.0), sized(8, 5.0, higher=0.03)))
    assert found.edits == (
        Rebatch(times=4, batch_size=4 * TRIED.workload.batch_size, expects=""),
        LargerBatch(times=4, rate=2.0),
    )
    assert 1.05 < found.predicted <= 3.0
    assert found.source_edit.endswith("learning_rate=2 * learning_rate")


def test_arrays_are_cut_into_larger_batches():
    found = proposal(LARGER, tried(sized(2, 1.8), data="numpy", pipeline=""))
    assert found.edits == (LargerBatch(times=2, rate=2**0.5),)


def test_what_a_larger_batch_costs_in_samples_is_told():
    dear = sized(8, 4.0, higher=0.03, price=2.5)
    assert reason(LARGER, tried(sized(2, 1.8, higher=0.02, price=1.9), dear)) == (
        "8 batches in one train 4x as many samples a second, but take 2.5 times as many to the "
        "same loss"
    )
    never = sized(8, 4.0, higher=0.03, price=None)
    assert reason(LARGER, tried(never)).endswith("did not come to the same loss")


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        ({"kind": "custom_loop"}, "your own code"),
        ({"data": "pydataset"}, "makes its batches itself"),
        ({"called_in_loop": True}, "a few steps at a time"),
        ({"batch_hooks": ("Logger",)}, "every batch"),
        ({"steps_given": True}, "steps_per_epoch"),
        ({"distributed": True}, "strategy"),
        ({"eager_step": True}, "eagerly"),
        ({"batch_size": None}, "none could be tried"),
    ],
)
def test_where_it_is_left_alone(workload, words):
    assert words in reason(LARGER, tried(sized(2, 1.8), **workload))


def test_a_step_of_the_user_s_own_may_use_the_rate_otherwise():
    own = replace(TRIED.workload.model, train_step="c0de")
    assert "train_step" in reason(LARGER, tried(sized(2, 1.8), model=own))


def test_where_none_was_tried():
    assert "no larger batch" in reason(LARGER, tried())
