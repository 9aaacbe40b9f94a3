from __future__ import annotations

import pytest

from optimizations.situations import SITUATIONS, proposal, reason
from uncork.core.base.record import replace
from uncork.core.edits.step import TensorArguments
from uncork.optimizations.host.tensor_arguments import TensorArgumentsOptimization

PASS = TensorArgumentsOptimization()


def loop(**workload):
    seen = SITUATIONS["traced for numbers"]
    return replace(
        seen,
        workload=replace(
            seen.workload, **{"step_call_at": "a.py:9", "step_setup_at": None}, **workload
        ),
    )


def test_numbers_that_change_are_handed_over_as_tensors():
    found = proposal(PASS, loop(number_arguments=("beta", "epoch")))
    assert found.edits == (TensorArguments(code_digest="c0de", argument_names=("beta", "epoch")),)
    assert found.predicted == 3.0
    assert found.at == "a.py:9"
    assert found.source_edit == "beta = tf.constant(beta)\nepoch = tf.constant(epoch)"


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        ({"kind": "fit"}, "Keras passes only tensors"),
        ({"number_arguments": ()}, "no number among"),
        ({"is_eager_step": True}, "runs eagerly"),
        ({"step_code_digest": ""}, "more than one compiled function"),
        ({"replicas": 2}, "tf.distribute"),
    ],
)
def test_where_it_is_of_no_use(workload, words):
    assert words in reason(PASS, loop(**workload))


def test_nothing_is_traced():
    assert "no time is lost" in reason(PASS, replace(loop(), findings=()))
