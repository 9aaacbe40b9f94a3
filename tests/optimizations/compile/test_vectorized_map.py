from __future__ import annotations

import pytest

from optimizations.situations import COMPUTING, SITUATIONS, proposal, reason
from records import observed
from uncork.core.base.record import replace
from uncork.core.edits.step import VectorizedMapFn
from uncork.core.evidence.kernels import KernelGroup
from uncork.optimizations.compile.vectorized_map import VectorizedMapOptimization

AT_ONCE = VectorizedMapOptimization()
MAPPED = SITUATIONS["a map over examples in the step"]
LOOP = {
    "kind": "custom_loop",
    "model": None,
    "step_code_digest": "abc",
    "step_call_at": "train.py:50",
}


def loop(**changes):
    return replace(MAPPED, workload=replace(MAPPED.workload, **LOOP, **changes))


def mapped(*parts):
    return observed(shares=COMPUTING, kernels=parts)


def part(share, phase="forward", rounds=32, **changes):
    given = {
        "calls_per_step": 900.0,
        "main_kernel": "TensorListSetItem",
        "is_map_fn_loop": True,
        **changes,
    }
    return KernelGroup(share=share, phase=phase, loop_iterations=rounds, **given)


def test_the_rounds_of_a_map_are_predicted_to_become_one():
    found = proposal(AT_ONCE, MAPPED)
    assert found.edits == (VectorizedMapFn(),)
    step = MAPPED.breakdown["step"]
    assert found.predicted == pytest.approx(1 / (1 - step * 0.6 * 31 / 32))
    assert found.at == "train.py:31"
    assert "32 rounds" in found.rationale
    assert found.source_edit == "tf.vectorized_map(fn, elems)"


def test_it_promises_rounding():
    assert AT_ONCE.guarantee == "rounding"


def test_a_map_over_something_else_than_examples_is_a_map_too():
    assert "5 rounds" in proposal(AT_ONCE, mapped(part(0.6, rounds=5))).rationale


def test_in_a_loop_of_the_user_s_own_the_step_is_known_by_its_code():
    assert proposal(AT_ONCE, loop()).edits == (VectorizedMapFn(code_digest="abc"),)


def test_without_a_line_of_the_map_the_step_s_is_named():
    assert proposal(AT_ONCE, mapped(part(0.6))).at == "train.py:33"


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ((part(0.6, is_map_fn_loop=False),), "no kernels run in a loop"),
        ((part(0.6, rounds=1),), "no kernels run in a loop"),
        ((), "no kernels run in a loop"),
        ((part(0.01),), "predicted gain"),
    ],
)
def test_where_nothing_is_to_be_won(parts, words):
    assert words in reason(AT_ONCE, mapped(*parts))


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        ({"is_eager_step": True}, "runs eagerly"),
        ({"step_code_digest": ""}, "more than one compiled function"),
        ({"replicas": 2}, "tf.distribute"),
    ],
)
def test_a_step_of_a_loop_that_cannot_be_traced_anew(workload, words):
    assert words in reason(AT_ONCE, replace(loop(), workload=replace(loop().workload, **workload)))


@pytest.mark.parametrize("situation", ["custom loop", "eager", "distributed"])
def test_a_step_that_is_not_keras_s_to_change_is_left_alone(situation):
    assert reason(AT_ONCE, SITUATIONS[situation])
