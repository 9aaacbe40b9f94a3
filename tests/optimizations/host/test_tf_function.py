from __future__ import annotations

import pytest

from optimizations.situations import AUGMENTING, COMPUTING, proposal, reason
from records import observed
from uncork.core.edits.step import TfFunction
from uncork.optimizations.host.tf_function import TfFunctionOptimization

GRAPH = TfFunctionOptimization()
LOST = {"input": 0.05, "host": 0.75, "step": 0.2}


def training(shares=LOST, **workload):
    return observed(*AUGMENTING, shares=shares, workload={"is_eager_step": True, **workload})


def loop(**workload):
    return training(
        kind="custom_loop", model=None, step_code_digest="c0de", step_setup_at="a.py:3", **workload
    )


def test_what_is_lost_between_ops_is_saved():
    found = proposal(GRAPH, training())
    assert found.edits == (TfFunction(code_digest=""),)
    assert found.predicted == pytest.approx(4.0)
    assert "run_eagerly" in found.source_edit


def test_the_step_of_a_loop_is_known_by_its_code():
    found = proposal(GRAPH, loop())
    assert found.edits == (TfFunction(code_digest="c0de"),)
    assert found.at == "a.py:3"
    assert "@tf.function" in found.source_edit


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        ({"is_eager_step": False}, "compiled already"),
        ({"is_fit_in_loop": True}, "runs a few steps only"),
        ({"is_distributed": True}, "strategy"),
        (
            {"tf_function_refusal": "it does more than compute: print"},
            "cannot become a graph: it does",
        ),
    ],
)
def test_left_alone(workload, words):
    assert words in reason(GRAPH, training(**workload))


def test_not_worth_it_where_python_takes_little():
    assert "below 1.05x" in reason(GRAPH, training(shares=COMPUTING | {"host": 0.03}))
