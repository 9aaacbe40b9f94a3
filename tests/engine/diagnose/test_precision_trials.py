"""A step measured in another precision; which one is the device's to say."""

from __future__ import annotations

import keras
import numpy as np
import pytest

import uncork
from uncork.engine.diagnose import observe
from uncork.engine.diagnose import precision_trials as precisions
from uncork.measure.machine import devices
from uncork.training.optimizer.learning_rate import is_warming_up


def trained(**fake: bool):
    """What a diagnosis measures on a device that computes natively what is said."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(observe, "_COMPUTING", 0.0)  # however busy this machine is
        for name, answer in fake.items():
            patch.setattr(precisions, name, lambda answer=answer: answer)
        keras.utils.set_random_seed(1)
        model = keras.Sequential([
            keras.Input((64,)), keras.layers.Dense(256), keras.layers.Dense(1),
        ])  # fmt: skip
        model.compile("adam", "mse")
        x, y = np.zeros((2048, 64), "float32"), np.zeros((2048, 1), "float32")
        optimizer = model.optimizer
        found = uncork.diagnose(model, (x, y), batch_size=512, budget=2.0, quiet=True).record
        assert model.optimizer is optimizer
        assert {layer.dtype_policy.name for layer in model.layers} == {"float32"}
        return found.workloads[0]


@pytest.mark.deep
def test_a_fake_device_with_float16_alone_is_measured_in_float16():
    found = trained(has_native_bfloat16=False, has_native_float16=True)
    assert found.float16_speedup is not None
    assert found.bfloat16_speedup is None


def test_a_fake_device_with_both_is_measured_in_bfloat16():
    found = trained(has_native_bfloat16=True, has_native_float16=True)
    assert found.float16_speedup is None
    assert found.bfloat16_speedup is not None


@pytest.mark.parametrize(
    ("capability", "fast"), [((6, 0), False), ((7, 0), True), ((7, 5), True), (None, None)]
)
def test_tensor_cores_make_float16_fast(monkeypatch, capability, fast):
    details = {} if capability is None else {"compute_capability": capability}
    monkeypatch.setattr(devices.tf.config, "get_visible_devices", lambda kind: [kind])
    monkeypatch.setattr(
        devices.tf.config.experimental, "get_device_details", lambda device: details
    )
    assert devices.has_native_float16() is fast


def test_a_cpu_is_not_fast_in_float16():
    assert devices.has_native_float16() is False


def test_a_rate_that_is_still_warmed_up_tells_nothing() -> None:
    """Next to nothing is learned: whatever else is done to the training, it agrees."""
    slow = keras.optimizers.schedules.CosineDecay(
        0.0, 20_000, warmup_target=1e-3, warmup_steps=10_000
    )
    assert is_warming_up(keras.optimizers.Adam(slow), 400)
    quick = keras.optimizers.schedules.CosineDecay(0.0, 20_000, warmup_target=1e-3, warmup_steps=90)
    assert not is_warming_up(keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(quick)), 400)
    assert not is_warming_up(keras.optimizers.SGD(0.1), 400)
