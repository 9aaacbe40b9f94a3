from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from uncork.compat.keras3 import model_state
from uncork.compat.keras3.model_state import (
    build_symbolically,
    compile_config,
    compile_loss,
    compile_metrics,
    compute_loss,
    exchange_compile_metrics,
    given_loss,
    given_metrics,
    given_weighted_metrics,
    jit_compile_setting,
    loss_arguments,
    loss_tracker,
    losses_of,
    metric_function,
    set_jit_compile_setting,
    strategy_of,
)
from uncork.core.base.errors import MissingPrivateApi

BATCH = np.ones((4, 2), "float32"), np.zeros((4, 1), "float32")


def compiled(**given):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, kernel_initializer="ones")])
    model.compile("sgd", **{"loss": "mse", **given})
    return model


def test_each_compile_creates_what_steps_are_traced_with():
    model = compiled(metrics=["mae"])
    parts = (compile_config, compile_loss, compile_metrics)
    before = [part(model) for part in parts]
    assert None not in before
    model.compile("sgd", loss="mse", metrics=["mae"])
    assert all(part(model) is not each for part, each in zip(parts, before, strict=True))


def test_a_model_that_was_not_compiled_has_none_of_it():
    model = keras.Sequential()
    parts = (compile_config, compile_loss, compile_metrics, given_loss, given_metrics)
    assert [part(model) for part in parts] == [None] * 5
    assert losses_of(model) == []


def test_a_plain_layer_has_no_losses_and_metrics():
    dense = keras.layers.Dense(1)
    assert (compile_loss(dense), compile_metrics(dense), strategy_of(dense)) == (None, None, None)


def test_arguments_of_compile_are_returned():
    model = compiled(metrics=["mae"], weighted_metrics=["mse"])
    assert given_loss(model) == "mse"
    assert given_metrics(model) == ["mae"]
    assert given_weighted_metrics(model) == ["mse"]


def test_metrics_are_out_of_force_while_they_are_exchanged():
    model = compiled(metrics=["mae"])
    before = exchange_compile_metrics(model, None)
    assert "mae" not in model.evaluate(*BATCH, verbose=0, return_dict=True)
    assert exchange_compile_metrics(model, before) is None
    assert compile_metrics(model) is before


def test_losses_are_known_once_they_are_built():
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)
    model = compiled(loss=loss)
    assert losses_of(model) == []
    build_symbolically(model, (BATCH[0], np.zeros((4,), "int32")))
    assert losses_of(model) == [loss]
    assert loss_arguments(loss)["from_logits"] is True
    assert loss_arguments(object()) == {}


def test_a_metric_is_built_without_a_step():
    model = compiled(metrics=["mae"])
    before = model.get_weights()
    build_symbolically(model, BATCH)
    assert compile_metrics(model).built
    assert all(np.array_equal(*pair) for pair in zip(before, model.get_weights(), strict=True))


def test_a_mean_is_known_by_its_function_and_another_metric_by_its_class():
    assert metric_function(keras.metrics.MeanAbsoluteError()).__name__ == "mean_absolute_error"
    assert metric_function(keras.metrics.Precision()) is keras.metrics.Precision


def test_the_loss_of_a_batch_and_the_metric_that_averages_it():
    model = compiled()
    (x, y), tracker = BATCH, loss_tracker(model)
    loss = compute_loss(model, x=x, y=y, y_pred=model(x), sample_weight=None, training=True)
    model.evaluate(x, y, verbose=0)
    assert float(tracker.result()) == pytest.approx(float(loss)) == 4.0


def test_xla_may_be_set_where_keras_would_leave_it_off():
    model = compiled()
    model.supports_jit = False
    set_jit_compile_setting(model, True)
    assert jit_compile_setting(model) is True
    assert model.jit_compile is True


def test_the_strategy_is_none_without_one():
    assert strategy_of(compiled()) is None
    strategy = tf.distribute.OneDeviceStrategy("/CPU:0")
    with strategy.scope():
        assert strategy_of(compiled()) is strategy


@pytest.mark.parametrize(
    ("read", "field"),
    [
        (loss_tracker, "_loss_tracker"),
        (compute_loss, "_compute_loss"),
        (lambda model: build_symbolically(model, None), "_symbolic_build"),
        (jit_compile_setting, "_jit_compile"),
        (lambda model: set_jit_compile_setting(model, True), "_jit_compile"),
        (compile_loss, "_compile_loss"),
        (compile_metrics, "_compile_metrics"),
        (strategy_of, "_distribute_strategy"),
    ],
)
def test_a_missing_field_is_reported(read, field, monkeypatch):
    for name in ("_Trainer", "_TFTrainer"):
        monkeypatch.setattr(model_state, name, object)
    with pytest.raises(MissingPrivateApi, match=rf"object\.{field}'"):
        read(object())


@pytest.mark.parametrize(
    ("read", "holder", "field"),
    [
        (given_loss, compile_loss, "_user_loss"),
        (losses_of, compile_loss, "_flat_losses"),
        (given_metrics, compile_metrics, "_user_metrics"),
        (given_weighted_metrics, compile_metrics, "_user_weighted_metrics"),
        (lambda model: metric_function(model.mean), lambda model: model.mean, "_fn"),
    ],
)
def test_a_missing_field_of_a_part_is_reported(read, holder, field):
    model = compiled(metrics=["mae"])
    model.mean = keras.metrics.MeanAbsoluteError()
    del vars(holder(model))[field]
    with pytest.raises(MissingPrivateApi, match=rf"\.{field}'"):
        read(model)
