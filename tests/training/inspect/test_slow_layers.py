from __future__ import annotations

import sys

import keras
import pytest

from uncork.compat.random_state import random_state
from uncork.core.evidence.kernels import KernelGroup
from uncork.pycode.frames.layer_registry import LayerRegistry
from uncork.training.inspect.slow_layers import find_slow_layers


def priced(layer, shape, share=0.8, batch_size=8):
    layers = LayerRegistry()
    layers.note_creation(layer, "train.py:12")
    if shape is not None:
        layer.build(shape)
    kind = type(layer).__name__
    part = KernelGroup(
        phase="forward",
        share=share,
        calls_per_step=9.0,
        main_kernel="MatMul",
        layer=kind,
        at="train.py:12",
    )
    return list(find_slow_layers(layers, [part], batch_size))


def test_the_argument_at_fault_gets_a_price_and_the_layer_stays_as_it_was():
    layer = keras.layers.LSTM(24, recurrent_dropout=0.3, name="mine")
    layer.build((None, 20, 8))
    before = [v.numpy().copy() for v in layer.variables]
    random = random_state()
    (found,) = priced(layer, (None, 20, 8))
    assert (found.layer, found.argument, found.at) == ("LSTM", "recurrent_dropout", "train.py:12")
    assert found.speedup_without_argument.ratio > 0
    assert layer.recurrent_dropout == pytest.approx(0.3)
    after = [v.numpy() for v in layer.variables]
    assert all((a == b).all() for a, b in zip(before, after, strict=True))
    assert str(random_state()) == str(random)


@pytest.mark.parametrize("layer", [
    keras.layers.GRU(4, dropout=0.3),
    keras.layers.SimpleRNN(4),
    keras.layers.Conv1D(4, 3),
])  # fmt: skip
def test_others_pay_for_nothing(layer):
    assert priced(layer, (None, 5, 3)) == []


def test_one_that_takes_little_is_not_looked_at():
    layer = keras.layers.GRU(4, recurrent_dropout=0.3)
    assert priced(layer, (None, 5, 3), share=0.05) == []


@pytest.mark.parametrize("shape", [None, (None, None, 3)])
def test_one_of_unknown_length_or_that_was_never_built_is_left_alone(shape):
    assert priced(keras.layers.GRU(4, recurrent_dropout=0.3), shape) == []


@pytest.mark.every(3, first=2)
@pytest.mark.parametrize(
    ("layer", "arguments"),
    [
        (keras.layers.LSTM(4, activation="relu", unroll=True), ["activation", "unroll"]),
        (keras.layers.GRU(4, reset_after=False, use_bias=False), ["use_bias", "reset_after"]),
        (keras.layers.LSTM(4), []),
    ],
    ids=["lstm", "gru", "as cuDNN has it"],
)
def test_on_a_gpu_all_that_cudnn_does_not_compute_has_a_price(layer, arguments, monkeypatch):
    assert priced(layer, (None, 5, 3)) == []
    monkeypatch.setattr(
        sys.modules["uncork.training.inspect.slow_layers"], "best_device", lambda: "GPU"
    )
    assert [found.argument for found in priced(layer, (None, 5, 3))] == arguments
