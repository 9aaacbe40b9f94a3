from __future__ import annotations

import pytest

from optimizations.situations import SITUATIONS, proposal, reason
from uncork.core.base.record import replace
from uncork.core.edits.step import ArrayArguments
from uncork.core.evidence.stage import UnchangedArrays
from uncork.optimizations.host.array_arguments import ArrayArgumentsOptimization

COPY = ArrayArgumentsOptimization()


def loop(same=None, **workload):
    seen = SITUATIONS["a table handed over at each call"]
    hands, converts = seen.stages
    stages = (hands, replace(converts, unchanged_arrays=same or converts.unchanged_arrays))
    return replace(seen, stages=stages, workload=replace(seen.workload, **workload))


def test_arrays_are_copied_where_they_changed():
    found = proposal(COPY, loop())
    assert found.edits == (ArrayArguments(code_digest="c0de", argument_names=("table",)),)
    assert found.predicted == pytest.approx(0.1 / (0.1 - 0.05 + 0.01))
    assert found.at == "train.py:21"
    assert found.source_edit == "table = tf.constant(table)  # once, before the loop"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"kind": "fit"}, "Keras passes only tensors"),
        ({"is_eager_step": True}, "runs eagerly"),
        ({"step_code_digest": ""}, "more than one compiled function"),
        ({"replicas": 2}, "tf.distribute"),
        (
            {"same": UnchangedArrays(argument_names=(), copy_s=0.05, compare_s=0.01)},
            "parts of arguments",
        ),
        (
            {"same": UnchangedArrays(argument_names=("table",), copy_s=0.05, compare_s=0.049)},
            "predicted gain",
        ),
    ],
)
def test_where_it_is_of_no_use(given, words):
    assert words in reason(COPY, loop(**given))


def test_nothing_is_handed_over():
    assert "no large unchanged array" in reason(COPY, replace(loop(), stages=()))
