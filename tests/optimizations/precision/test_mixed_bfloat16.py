from __future__ import annotations

import pytest

from optimizations.situations import CHATTY, COMPUTING, SITUATIONS, WAITING, proposal, reason
from records import WORKLOAD, observed
from uncork.core.base.measurement import compare
from uncork.core.base.record import replace
from uncork.core.edits.step import DtypePolicy
from uncork.optimizations.precision.mixed_bfloat16 import MixedBfloat16Optimization

BFLOAT16 = MixedBfloat16Optimization()


def training(shares=COMPUTING, bfloat16=True, **workload):
    return observed(shares=shares, has_native_bfloat16=bfloat16, workload=workload)


@pytest.mark.parametrize("shares", [COMPUTING, CHATTY])
def test_kernels_that_take_their_time_are_halved(shares):
    found = proposal(BFLOAT16, training(shares))
    assert found.edits == (DtypePolicy(policy="mixed_bfloat16"),)
    assert found.predicted is None
    assert "mixed_bfloat16" in found.source_edit


def test_layers_that_only_draw_stay_in_float32():
    found = proposal(BFLOAT16, training(random_layers=("drop", "flip")))
    assert found.edits == (DtypePolicy(policy="mixed_bfloat16", float32_layers=("drop", "flip")),)
    assert 'dtype="float32" for drop, flip' in found.source_edit


def test_what_the_diagnosis_measured_is_predicted():
    faster = compare([100.0, 100.0], [150.0, 150.0])
    found = proposal(BFLOAT16, replace(training(), bfloat16_speedup=faster))
    assert 1.3 < found.predicted < 1.5


def test_what_the_diagnosis_saw_lose_is_not_tried_again():
    slower = compare([100.0, 100.0], [50.0, 50.0])
    assert "predicted gain 0.5" in reason(BFLOAT16, replace(training(), bfloat16_speedup=slower))


def test_layers_that_fit_builds_may_make_others():
    assert "call the model on a first batch" in reason(
        BFLOAT16, training(has_late_built_layers=True)
    )


def test_it_promises_precision():
    assert BFLOAT16.guarantee == "precision"


@pytest.mark.parametrize(("bfloat16", "words"), [(False, "does not"), (None, "is not known to")])
def test_a_device_without_it_is_left_alone(bfloat16, words):
    assert f"this device {words} compute bfloat16" in reason(BFLOAT16, training(bfloat16=bfloat16))


@pytest.mark.parametrize(
    "policy", [("mixed_bfloat16",), ("mixed_float16",), ("float32", "mixed_bfloat16"), ("float64",)]
)
def test_a_dtype_policy_of_the_user_s_own_is_kept(policy):
    model = replace(WORKLOAD.model, dtype_policies=policy)
    assert policy[0] in reason(BFLOAT16, training(model=model))


@pytest.mark.parametrize("shares", [WAITING, {"host": 0.95, "step": 0.05}, {}])
def test_kernels_that_take_no_time_are_left_alone(shares):
    assert "predicted gain" in reason(BFLOAT16, training(shares))


def test_the_step_of_a_loop_is_traced_anew():
    work = {
        "kind": "custom_loop",
        "model": None,
        "step_code_digest": "abc",
        "layer_dtype_policies": ("float32",),
    }
    found = proposal(BFLOAT16, training(**work))
    assert found.edits == (DtypePolicy(policy="mixed_bfloat16", code_digest="abc"),)
    for changed, why in (
        ({"step_code_digest": ""}, "more than one compiled function"),
        ({"layer_dtype_policies": ()}, "no Keras layer"),
        ({"layer_dtype_policies": ("float32", "mixed_float16")}, "mixed_float16"),
        ({"is_eager_step": True}, "runs eagerly"),
        ({"replicas": 2}, "strategy"),
    ):
        assert why in reason(BFLOAT16, training(**{**work, **changed}))


@pytest.mark.parametrize("situation", ["custom loop", "eager", "distributed"])
def test_a_step_that_is_not_keras_s_to_change_is_left_alone(situation):
    assert reason(BFLOAT16, replace(SITUATIONS[situation], has_native_bfloat16=True))
