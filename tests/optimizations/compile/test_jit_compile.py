from __future__ import annotations

import pytest

from optimizations.situations import CHATTY, COMPUTING, SITUATIONS, WAITING, proposal, reason
from records import observed
from uncork.core.edits.step import JitCompile
from uncork.optimizations.compile.jit_compile import JitCompileOptimization

XLA = JitCompileOptimization()


@pytest.mark.parametrize("shares", [COMPUTING, CHATTY])
def test_kernels_that_take_their_time_are_compiled(shares):
    found = proposal(XLA, observed(shares=shares))
    assert found.edits == (JitCompile(),)
    assert found.predicted is None
    assert found.at == "train.py:33"


def test_data_of_any_kind():
    for data in ("tf.data", "numpy", "pydataset"):
        assert proposal(XLA, observed(shares=COMPUTING, workload={"data_kind": data}))


def test_it_promises_rounding():
    assert XLA.guarantee == "rounding"


def test_once_is_enough():
    assert "already" in reason(XLA, observed(shares=COMPUTING, workload={"jit_compile": True}))


@pytest.mark.parametrize("shares", [WAITING, {"host": 0.9, "step": 0.1}, {}])
def test_kernels_that_take_no_time_are_left_alone(shares):
    assert "predicted gain" in reason(XLA, observed(shares=shares))


def test_the_step_of_a_loop_that_calls_one_compiled_function():
    work = {
        "kind": "custom_loop",
        "model": None,
        "step_code_digest": "abc",
        "step_call_at": "train.py:50",
    }
    work["step_setup_at"] = None
    found = proposal(XLA, observed(shares=COMPUTING, workload=work))
    assert found.edits == (JitCompile(code_digest="abc"),)
    assert found.at == "train.py:50"
    assert found.source_edit.startswith("@tf.function(jit_compile=True)")
    eagerly = {**work, "is_eager_step": True}
    assert "runs eagerly" in reason(XLA, observed(shares=COMPUTING, workload=eagerly))
    several = {**work, "step_code_digest": ""}
    assert "more than one" in reason(XLA, observed(shares=COMPUTING, workload=several))
    replicas = {**work, "replicas": 2}
    assert "tf.distribute" in reason(XLA, observed(shares=COMPUTING, workload=replicas))


@pytest.mark.parametrize("situation", ["custom loop", "eager", "distributed"])
def test_a_step_that_is_not_keras_s_to_change_is_left_alone(situation):
    assert reason(XLA, SITUATIONS[situation])
