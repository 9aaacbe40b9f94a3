from __future__ import annotations

import pytest

from records import MACHINE, observed
from uncork.core.base.measurement import compare
from uncork.core.base.record import replace
from uncork.core.evidence.kernels import KernelGroup
from uncork.rules.device import low_precision

COMPUTING = {"step": 0.95, "host": 0.05}
TWICE_AS_FAST = compare([100.0, 101.0, 99.0], [200.0, 203.0, 197.0])


def found(shares=None, machine=MACHINE, **changes):
    fields = {"bfloat16_speedup": TWICE_AS_FAST, **changes}
    return list(low_precision.find(observed(shares=shares or COMPUTING, **fields), machine))


def test_a_step_that_ran_faster_in_bfloat16_is_named():
    (finding,) = found()
    assert finding.cause == "low_precision_unused"
    assert finding.share == 0.95
    assert 1.85 < finding.upper_bound < 2
    assert MACHINE.cpu_model in finding.evidence
    assert "2.00x" in finding.evidence


def part(share, phase="forward", layer="", at=None):
    return KernelGroup(
        phase=phase, share=share, calls_per_step=1.0, main_kernel="MatMul", layer=layer, at=at
    )


def test_the_layer_that_computes_most_is_to_blame_and_without_one_the_training():
    kernels = (
        part(0.3, layer="Dense", at="train.py:5"),
        part(0.2, layer="Conv2D", at="train.py:4"),
        part(0.2, "backward", layer="Conv2D", at="train.py:4"),
        part(0.5, "optimizer", at="train.py:30"),
    )
    assert found(kernels=kernels)[0].at == "train.py:4"
    assert found(kernels=(part(1.0),))[0].at == observed().workload.at


def test_the_accelerator_is_named_where_there_is_one():
    (finding,) = found(machine=replace(MACHINE, devices=("GPU:0 NVIDIA H200",)))
    assert "NVIDIA H200" in finding.evidence


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ([100.0, 101.0, 99.0], [50.0, 51.0, 49.0]),  # slower, as depthwise convolutions are
        ([100.0, 90.0, 120.0], [130.0, 95.0, 118.0]),  # within the noise
        ([100.0, 100.1, 99.9], [106.0, 106.1, 105.9]),  # proven, and not worth it
    ],
)
def test_what_bfloat16_does_not_help_is_not_blamed_on_float32(ours, theirs):
    assert found(bfloat16_speedup=compare(ours, theirs)) == []


def test_a_step_that_ran_faster_in_float16_is_told_that_its_loss_must_be_scaled():
    (finding,) = found(bfloat16_speedup=None, float16_speedup=TWICE_AS_FAST)
    assert "in float16 they ran 2.00x" in finding.evidence
    assert '"mixed_float16"' in finding.remedy
    assert "scale_loss" in finding.remedy
    assert "scale" not in found()[0].remedy


def test_what_was_not_tried_is_not_claimed():
    assert found(bfloat16_speedup=None) == []


@pytest.mark.parametrize("share", [0.01, 0.5, 0.84])
def test_a_step_that_does_not_compute_most_of_the_time_is_left_alone(share):
    assert found({"step": share, "input": 1 - share}) == []
