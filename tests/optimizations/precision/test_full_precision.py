from __future__ import annotations

import pytest

from optimizations.situations import COMPUTING, SITUATIONS, proposal, reason
from records import WORKLOAD, observed
from uncork.core.base.measurement import compare
from uncork.core.base.record import replace
from uncork.core.edits.step import DtypePolicy
from uncork.optimizations.precision.full_precision import FullPrecisionOptimization

FULL = FullPrecisionOptimization()
MIXED = replace(WORKLOAD.model, dtype_policies=("mixed_bfloat16", "float32"))
FASTER = compare([100.0, 100.0], [150.0, 150.0])


def training(in_float32=FASTER, **workload):
    work = {"model": MIXED, "dtype_policy_at": "train.py:9", **workload}
    return observed(shares=COMPUTING, float32_speedup=in_float32, workload=work)


def test_what_the_diagnosis_measured_is_predicted():
    found = proposal(FULL, training())
    assert found.edits == (DtypePolicy(policy="float32"),)
    assert 1.3 < found.predicted < 1.5
    assert found.at == "train.py:9"
    assert "mixed_bfloat16" in found.source_edit


def test_it_promises_precision():
    assert FULL.guarantee == "precision"


def test_what_the_diagnosis_saw_lose_is_not_tried_again():
    slower = compare([100.0, 100.0], [50.0, 50.0])
    assert "predicted gain 0.5" in reason(FULL, training(slower))


def test_a_loss_scale_is_not_left_to_grow():
    model = replace(MIXED, dtype_policies=("mixed_float16",))
    assert "doubling the scale" in reason(FULL, training(model=model))


def test_what_was_not_measured_is_left_alone():
    assert "float32" in reason(FULL, training(None))


def test_the_step_of_a_loop_is_traced_anew():
    low = ("float32", "mixed_bfloat16")
    work = {
        "kind": "custom_loop",
        "model": None,
        "step_code_digest": "abc",
        "layer_dtype_policies": low,
    }
    found = proposal(FULL, training(**work))
    assert found.edits == (DtypePolicy(policy="float32", code_digest="abc"),)
    assert "more than one" in reason(FULL, training(**{**work, "step_code_digest": ""}))
    scaled = ("float32", "mixed_float16")
    assert "doubling the scale" in reason(
        FULL, training(**{**work, "layer_dtype_policies": scaled})
    )


@pytest.mark.parametrize("situation", ["custom loop", "eager", "distributed"])
def test_a_step_that_is_not_keras_s_to_change_is_left_alone(situation):
    assert reason(FULL, replace(SITUATIONS[situation], float32_speedup=FASTER))
