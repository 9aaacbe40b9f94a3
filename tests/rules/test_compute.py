from __future__ import annotations

import pytest

from records import MACHINE, WORKLOAD, observed
from uncork.core.record import replace
from uncork.rules import compute

COMPUTING = {"step": 0.95, "host": 0.05}


def found(shares=None, machine=MACHINE, **changes):
    fields = {"bfloat16": True, **changes}
    return list(compute.find(observed(shares=shares or COMPUTING, **fields), machine))


def test_float32_on_a_device_with_bfloat16_is_named():
    (finding,) = found()
    assert finding.cause == "compute_bound"
    assert finding.share == 0.95
    assert 1.85 < finding.upper_bound < 2
    assert MACHINE.cpu_model in finding.evidence


def test_the_accelerator_is_named_where_there_is_one():
    (finding,) = found(machine=replace(MACHINE, devices=("GPU:0 NVIDIA H200",)))
    assert "NVIDIA H200" in finding.evidence


@pytest.mark.parametrize("bfloat16", [False, None])
def test_without_native_bfloat16_there_is_nothing_to_name(bfloat16):
    assert found(bfloat16=bfloat16) == []


@pytest.mark.parametrize(
    "policy", [("mixed_bfloat16",), ("float32", "mixed_bfloat16"), ("float64",), ()]
)
def test_another_dtype_policy_is_left_alone(policy):
    model = replace(WORKLOAD.model, dtype_policy=policy)
    assert found(workload={"model": model}) == []


def test_a_custom_loop_s_model_is_its_own_affair():
    assert found(workload={"model": None, "kind": "custom_loop"}) == []


@pytest.mark.parametrize("share", [0.01, 0.5, 0.84])
def test_a_step_that_does_not_compute_most_of_the_time_is_left_alone(share):
    assert found({"step": share, "input": 1 - share}) == []
