from __future__ import annotations

import pytest

from records import observed
from uncork.core.edit import JitCompile
from uncork.road.jit_compile import CompileStep

from .situations import CHATTY, COMPUTING, SITUATIONS, WAITING, proposal, reason

XLA = CompileStep()


@pytest.mark.parametrize("shares", [COMPUTING, CHATTY])
def test_kernels_that_take_their_time_are_compiled(shares):
    found = proposal(XLA, observed(shares=shares))
    assert found.edits == (JitCompile(),)
    assert found.predicted is None
    assert found.at == "train.py:41"


def test_data_of_any_kind():
    for data in ("tf.data", "numpy", "pydataset"):
        assert proposal(XLA, observed(shares=COMPUTING, workload={"data": data}))


def test_it_promises_rounding():
    assert XLA.guarantee == "rounding"


def test_once_is_enough():
    assert "already" in reason(XLA, observed(shares=COMPUTING, workload={"jit_compile": True}))


@pytest.mark.parametrize("shares", [WAITING, {"host": 0.9, "step": 0.1}, {}])
def test_kernels_that_take_no_time_are_left_alone(shares):
    assert "predicted gain" in reason(XLA, observed(shares=shares))


@pytest.mark.parametrize("situation", ["custom loop", "eager", "distributed"])
def test_a_step_that_is_not_keras_s_to_change_is_left_alone(situation):
    assert reason(XLA, SITUATIONS[situation])
