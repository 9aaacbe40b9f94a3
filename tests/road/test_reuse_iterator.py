from __future__ import annotations

import pytest

from records import observed
from uncork.core.edit import ReuseIterator
from uncork.road.reuse_iterator import KeepIterator

from .situations import proposal, reason

KEPT = KeepIterator()
LOST = {"host": 0.8, "step": 0.2}


def training(shares=LOST, **workload):
    return observed(
        shares=shares,
        workload={"called_in_loop": True, "data": "numpy", "pipeline": "", **workload},
    )


def test_calls_of_a_few_steps_read_through_one_iterator():
    found = proposal(KEPT, training())
    assert found.edits == (ReuseIterator(),)
    assert found.predicted == pytest.approx(1 / (1 - 0.8 * 0.95))
    assert found.at == "train.py:41"


def test_it_promises_every_bit_and_nothing_less():
    assert (KEPT.guarantee, KEPT.at_worst) == ("exact", None)


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        ({"called_in_loop": False}, "not called for a few steps"),
        ({"data": "tf.data"}, "given a tf.data"),
        ({"steps_given": True}, "steps_per_epoch"),
        ({"eager_step": True}, "eagerly"),
        ({"distributed": True}, "tf.distribute"),
        ({"kind": "custom_loop", "model": None}, "your own code"),
    ],
)
def test_what_leaves_it_out(workload, words):
    assert words in reason(KEPT, training(**workload))


def test_calls_that_cost_little_are_left_alone():
    assert "predicted gain" in reason(KEPT, training({"host": 0.01, "step": 0.99}))
