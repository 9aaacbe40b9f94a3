from __future__ import annotations

import pytest

from optimizations.situations import COMPUTING, RECOMPILED, SITUATIONS, WAITING, proposal, reason
from records import observed
from uncork.core.costmodel.compile_time import estimate_compile_time
from uncork.core.edits.step import JitCompileOff
from uncork.optimizations.compile.jit_compile_off import JitCompileOffOptimization

OFF = JitCompileOffOptimization()
ON = {"jit_compile": True}


def test_shapes_that_are_compiled_anew_promise_what_that_takes():
    found = proposal(OFF, SITUATIONS["compiled anew"])
    assert found.edits == (JitCompileOff(),)
    anew = estimate_compile_time(SITUATIONS["compiled anew"])
    assert anew is not None
    assert found.predicted == anew.expected_gain() > 1.5
    assert found.at == "train.py:33"


def test_a_function_that_is_made_anew_for_each_epoch_is_traced_anew_without_xla_as_well():
    found = observed(shares=WAITING, workload=ON, findings=(RECOMPILED,))
    assert "predicted gain" in reason(OFF, found)


def test_kernels_that_take_their_time_are_tried_without():
    found = proposal(OFF, observed(shares=COMPUTING, workload=ON))
    assert found.predicted is None
    assert found.source_edit == "model.compile(..., jit_compile=False)"


def test_a_script_without_xla_is_left_alone():
    assert reason(OFF, observed(shares=COMPUTING)) == "XLA is off already"


@pytest.mark.parametrize("shares", [WAITING, {"host": 0.9, "step": 0.1}, {}])
def test_kernels_that_take_no_time_are_left_alone(shares):
    assert "predicted gain" in reason(OFF, observed(shares=shares, workload=ON))


def test_the_step_of_a_loop_that_calls_one_compiled_function():
    work = {
        **ON,
        "kind": "custom_loop",
        "model": None,
        "step_code_digest": "abc",
        "step_setup_at": None,
    }
    found = proposal(
        OFF, observed(shares=COMPUTING, workload={**work, "step_call_at": "train.py:50"})
    )
    assert found.edits == (JitCompileOff(code_digest="abc"),)
    assert found.at == "train.py:50"
    assert found.source_edit.startswith("@tf.function(jit_compile=False)")
    several = {**work, "step_code_digest": ""}
    assert "more than one" in reason(OFF, observed(shares=COMPUTING, workload=several))


def test_it_promises_rounding():
    assert OFF.guarantee == "rounding"


@pytest.mark.parametrize("situation", ["custom loop", "eager", "distributed"])
def test_a_step_that_is_not_keras_s_to_change_is_left_alone(situation):
    assert reason(OFF, SITUATIONS[situation])
