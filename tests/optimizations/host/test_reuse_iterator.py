from __future__ import annotations

import pytest

from optimizations.situations import ask, proposal, reason
from records import observed
from uncork.core.base.record import replace
from uncork.core.edits.step import ReuseIterator
from uncork.core.evidence.loop import EvaluationCalls
from uncork.optimizations.base.proposal import Proposal
from uncork.optimizations.host.reuse_iterator import ReuseIteratorOptimization

KEPT = ReuseIteratorOptimization()
LOST = {"host": 0.8, "step": 0.2}


def training(shares=LOST, **workload):
    return observed(
        shares=shares,
        workload={"is_fit_in_loop": True, "data_kind": "numpy", "pipeline_digest": "", **workload},
    )


def test_calls_of_a_few_steps_read_through_one_iterator():
    found = proposal(KEPT, training())
    assert found.edits == (ReuseIterator(),)
    assert found.predicted == pytest.approx(1 / (1 - 0.8 * 0.95))
    assert found.at == "train.py:41"


def test_it_promises_every_bit_and_nothing_less():
    assert (KEPT.guarantee, KEPT.fallback_guarantee) == ("exact", None)


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        ({"is_fit_in_loop": False}, "runs many steps"),
        ({"data_kind": "tf.data"}, "reads a tf.data"),
        ({"has_explicit_steps": True}, "steps_per_epoch"),
        ({"is_eager_step": True}, "eagerly"),
        ({"is_distributed": True}, "tf.distribute"),
        ({"kind": "custom_loop", "model": None}, "neither evaluate nor predict"),
    ],
)
def test_what_leaves_it_out(workload, words):
    assert words in reason(KEPT, training(**workload))


@pytest.mark.parametrize(("share", "is_tried"), [(0.4, True), (0.02, False)])
def test_a_loop_that_predicts_for_long_is_tried(share, is_tried):
    loop = replace(
        training(kind="custom_loop", is_fit_in_loop=False, model=None),
        evaluation_calls=EvaluationCalls(
            share=share, calls_per_step=1.0, setup_share=0.9, at="train.py:60"
        ),
    )
    answer = ask(KEPT, loop)
    assert isinstance(answer, Proposal) == is_tried
    if is_tried:
        assert answer.at == "train.py:60"
        assert answer.predicted == pytest.approx(1 / (1 - 0.36))


def test_calls_that_cost_little_are_left_alone():
    assert "predicted gain" in reason(KEPT, training({"host": 0.01, "step": 0.99}))
