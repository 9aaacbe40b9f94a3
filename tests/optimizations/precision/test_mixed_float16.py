from __future__ import annotations

import pytest

from optimizations.situations import COMPUTING, SITUATIONS, WAITING, proposal, reason
from records import WORKLOAD, observed
from uncork.core.base.measurement import compare
from uncork.core.base.record import replace
from uncork.core.edits.step import DtypePolicy
from uncork.optimizations.precision.mixed_float16 import MixedFloat16Optimization

FLOAT16 = MixedFloat16Optimization()


def training(shares=COMPUTING, *, float16=True, bfloat16=False, **workload):
    """On a GPU with tensor cores for float16 alone, as far as the records say."""
    return observed(
        shares=shares, has_fast_float16=float16, has_native_bfloat16=bfloat16, workload=workload
    )


def test_kernels_that_take_their_time_are_halved():
    found = proposal(FLOAT16, training())
    assert found.edits == (DtypePolicy(policy="mixed_float16"),)
    assert found.predicted is None
    assert "mixed_float16" in found.source_edit
    assert FLOAT16.guarantee == "precision"


def test_layers_that_only_draw_stay_in_float32():
    found = proposal(FLOAT16, training(random_layers=("drop",)))
    assert found.edits == (DtypePolicy(policy="mixed_float16", float32_layers=("drop",)),)
    assert 'dtype="float32" for drop' in found.source_edit


def test_what_the_diagnosis_measured_is_predicted():
    faster = compare([100.0, 100.0], [150.0, 150.0])
    assert 1.3 < proposal(FLOAT16, replace(training(), float16_speedup=faster)).predicted < 1.5
    slower = compare([100.0, 100.0], [50.0, 50.0])
    assert "predicted gain 0.5" in reason(FLOAT16, replace(training(), float16_speedup=slower))


@pytest.mark.parametrize(("float16", "words"), [(False, "is not"), (None, "is not known to be")])
def test_a_device_that_is_slower_with_it_is_left_alone(float16, words):
    assert f"this device {words} faster in float16" in reason(FLOAT16, training(float16=float16))


def test_bfloat16_comes_first_where_there_is_any():
    assert "needs no loss scaling" in reason(FLOAT16, training(bfloat16=True))


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16", "float64"])
def test_a_dtype_policy_of_the_user_s_own_is_kept(policy):
    model = replace(WORKLOAD.model, dtype_policies=(policy,))
    assert policy in reason(FLOAT16, training(model=model))


def test_the_loss_of_a_loop_s_step_is_scaled_where_it_is_traced():
    work = {"kind": "custom_loop", "step_code_digest": "abc", "layer_dtype_policies": ("float32",)}
    found = proposal(FLOAT16, training(**work, model=None))
    assert found.edits == (DtypePolicy(policy="mixed_float16", code_digest="abc"),)
    assert "scale_loss(loss)" in found.source_edit


def test_a_scale_that_is_looked_for_in_every_fit_is_none():
    assert "loss scale again" in reason(FLOAT16, training(is_fit_in_loop=True))


def test_kernels_that_take_no_time_are_left_alone():
    assert "predicted gain" in reason(FLOAT16, training(WAITING))


@pytest.mark.parametrize("situation", ["custom loop", "eager", "distributed"])
def test_a_step_that_is_not_keras_s_to_change_is_left_alone(situation):
    assert reason(
        FLOAT16, replace(SITUATIONS[situation], has_fast_float16=True, has_native_bfloat16=False)
    )
