from __future__ import annotations

import pytest

from optimizations.situations import SITUATIONS, proposal, reason
from uncork.core.base.record import replace
from uncork.core.edits.step import ReduceRetracing
from uncork.optimizations.host.reduce_retracing import ReduceRetracingOptimization

OPEN = ReduceRetracingOptimization()


def loop(**workload):
    seen = SITUATIONS["traced anew"]
    return replace(
        seen,
        workload=replace(
            seen.workload, **{"step_call_at": "a.py:9", "step_setup_at": None}, **workload
        ),
    )


def test_a_step_that_is_traced_again_and_again():
    found = proposal(OPEN, loop())
    assert found.edits == (ReduceRetracing(code_digest="c0de"),)
    assert found.predicted == 3.0
    assert found.at == "a.py:9"
    assert "reduce_retracing=True" in found.source_edit


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        ({"kind": "fit"}, "Keras leaves shapes open"),
        ({"is_eager_step": True}, "no compiled function"),
        ({"step_code_digest": ""}, "no compiled function"),
        ({"replicas": 2}, "tf.distribute"),
    ],
)
def test_where_it_is_of_no_use(workload, words):
    assert words in reason(OPEN, loop(**workload))


def test_nothing_is_traced():
    assert "no time is lost" in reason(OPEN, replace(loop(), findings=()))
