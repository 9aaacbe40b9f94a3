from __future__ import annotations

import pytest

from optimizations.situations import COMPUTING, FOUR_CORES, SITUATIONS, proposal, reason
from records import observed
from uncork.core.base.record import replace
from uncork.core.edits.edit import KerasBackend
from uncork.optimizations.compile.keras_backend import KerasBackendOptimization

BACKEND = KerasBackendOptimization()
BUSY = SITUATIONS["computing"]


def changed(**workload):
    return replace(BUSY, workload=replace(BUSY.workload, **workload))


def test_the_script_is_started_on_it():
    found = proposal(BACKEND, BUSY)
    assert found.edits == (KerasBackend(backend="jax", backend_version="0.9.0"),)
    assert found.predicted is None
    assert "KERAS_BACKEND" in found.source_edit


def test_nothing_is_installed_for_it():
    without = replace(FOUR_CORES, jax="")
    assert "pip install jax" in reason(BACKEND, BUSY, machine=without)


def test_slow_steps_are_left_where_they_are():
    slow = observed(step_s=0.2, shares=COMPUTING)
    assert "a step takes 200 ms" in reason(BACKEND, slow)


def test_an_accelerator_is_left_to_tensorflow():
    machine = replace(FOUR_CORES, devices=("GPU:0 NVIDIA",))
    assert "accelerator" in reason(BACKEND, BUSY, machine=machine)


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        ({"kind": "custom_loop"}, "your own code"),
        ({"is_eager_step": True}, "eagerly"),
        ({"is_distributed": True}, "strategy"),
        ({"is_fit_in_loop": True}, "runs a few steps only"),
        ({"batch_callbacks": ("LambdaCallback", "WarmUp")}, "LambdaCallback, WarmUp may change"),
        ({"jit_compile": True}, "XLA compiles the step already"),
        ({"batch_size": None}, "batch size is unknown"),
        (
            {"model": replace(BUSY.workload.model, train_step_digest="c0de")},
            "train_step of its own",
        ),
        (
            {"model": replace(BUSY.workload.model, dtype_policies=("mixed_bfloat16",))},
            "float32 only",
        ),
    ],
)
def test_what_is_written_for_tensorflow_is_left_alone(workload, words):
    assert words in reason(BACKEND, changed(**workload))


def test_a_training_that_waits_for_its_input_gains_nothing():
    waiting = replace(BUSY, breakdown={"input": 0.97, "step": 0.03})
    assert "below 1.05x" in reason(BACKEND, waiting)
