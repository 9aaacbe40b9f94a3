from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from uncork.core.edits.step import DtypePolicy
from uncork.training.loop_step.mode import StepMode
from uncork.training.precision.float32_layers import random_layer_names
from uncork.training.precision.traced_policy import wrap_with_policy
from uncork.training.run.edit_checks import check_edits
from uncork.training.run.step_settings import StepSettings

X, Y = np.ones((8, 4, 6), "float32"), np.ones((8, 4, 1), "float32")


def functional(make):
    given = keras.Input((4, 6))
    return keras.Model(given, make(given))


def attention(**options):
    def make(given):
        x = layers.Dense(6)(given)
        x = layers.Add()([x, layers.MultiHeadAttention(2, 3, **options)(x, x)])
        return layers.Dense(1)(x * layers.Dropout(0.5, name="drop")(x))

    return functional(make)


def grouped():
    def make(given):
        x = layers.Dense(6)(given)
        return layers.Dense(1)(layers.GroupQueryAttention(3, 4, 2, dropout=0.2)(x, x))

    return functional(make)


class Own(keras.Model):
    def __init__(self, body=None):
        super().__init__()
        self.drop = layers.Dropout(0.5, name="own")
        self.body = body or layers.Dense(1)

    def call(self, x, training=False):
        return self.body(x + self.drop(x, training=training))


@pytest.mark.parametrize(
    "layer",
    [
        layers.Dropout(0.5, name="x"),
        layers.SpatialDropout1D(0.5, name="x"),
        layers.GaussianNoise(0.5, name="x"),
        layers.GaussianDropout(0.5, name="x"),
        layers.AlphaDropout(0.5, name="x"),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_layers_that_only_draw(layer):
    assert random_layer_names(keras.Sequential([keras.Input((4, 6)), layer, layers.Dense(1)])) == (
        "x",
    )


@pytest.mark.skipif(not hasattr(layers, "RandAugment"), reason="Keras 3.7 has no RandAugment")
def test_augmentation_with_what_it_holds():
    turn, augment = layers.RandomRotation(0.1, name="turn"), layers.RandAugment(name="augment")
    model = keras.Sequential([keras.Input((8, 8, 3)), turn, augment, layers.Flatten()])
    model.compile("sgd", "mse")
    keep = random_layer_names(model)
    assert keep == ("turn", "augment")
    with StepSettings(model, (DtypePolicy(policy="mixed_bfloat16", float32_layers=keep),)).active():
        assert {each.compute_dtype for each in augment._flatten_layers()} == {"float32"}
        assert model.layers[-1].compute_dtype == "bfloat16"


@pytest.mark.parametrize(
    "layer",
    [
        layers.Dropout(0.0),
        layers.Dense(1),
        layers.LSTM(3, dropout=0.5),
        Own(),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_layers_that_do_not_draw_or_do_more_as_well(layer):
    model = keras.Sequential([keras.Input((4, 6)), layer])
    assert random_layer_names(model) == ()


def test_models_within_models():
    inner = keras.Sequential([keras.Input((4, 6)), layers.Dropout(0.5, name="inner")])
    model = functional(lambda x: layers.Dense(1)(layers.GaussianNoise(0.1, name="outer")(inner(x))))
    assert set(random_layer_names(model)) == {"inner", "outer"}
    own = Own(keras.Sequential([layers.Dropout(0.5, name="inner"), layers.Dense(1)]))
    own(X)
    assert random_layer_names(own) == ("inner",), "what its own call does with a layer nobody knows"


@pytest.mark.parametrize("make", [lambda: attention(dropout=0.2), attention, grouped])
def test_a_model_that_keeps_them_draws_as_in_float32(make):
    model = make()
    model.compile("sgd", "mse")
    keep = random_layer_names(model)
    assert keep
    low = DtypePolicy(policy="mixed_bfloat16", float32_layers=keep)
    with StepSettings(model, (low,)).active():
        traced = tf.function(lambda x: model(x, training=True)).get_concrete_function(X)
        model.fit(X, Y, verbose=0)
    ops = traced.graph.get_operations()
    assert {op.outputs[0].dtype for op in ops if "RandomUniform" in op.type} == {tf.float32}
    assert tf.bfloat16 in {op.outputs[0].dtype for op in ops if "MatMul" in op.type}


def test_the_loss_is_then_that_of_float32_but_for_its_rounding():
    def losses(*edits):
        keras.utils.set_random_seed(3)
        model = keras.Sequential(
            [keras.Input((32,)), layers.Dense(64, "relu"), layers.Dropout(0.5), layers.Dense(1)]
        )
        model.compile(keras.optimizers.SGD(0.01), "mse")
        x = np.random.default_rng(0).normal(size=(64, 32)).astype("float32")
        edits = [low(random_layer_names(model)) for low in edits]
        with StepSettings(model, tuple(edits)).active():
            return model.fit(x, x[:, :1], epochs=4, shuffle=False, verbose=0).history["loss"]

    full = losses()
    kept = losses(lambda names: DtypePolicy(policy="mixed_bfloat16", float32_layers=names))
    drawn = losses(lambda _: DtypePolicy(policy="mixed_bfloat16"))
    np.testing.assert_allclose(kept, full, rtol=0.01)
    assert np.abs(np.subtract(drawn, full)).max() > 4 * np.abs(np.subtract(kept, full)).max()


def test_a_second_model_s_layers_are_kept_whatever_keras_calls_them():
    """As of one fold after the other, which a plan for the first is used on."""

    def made():
        inner = [layers.Dense(4), layers.Dropout(0.5), layers.Dense(1)]
        model = keras.Sequential([keras.Input((6,)), *inner])
        model.compile("adam", "mse")
        return model

    first, second = made(), made()
    edit = DtypePolicy(policy="mixed_bfloat16", float32_layers=random_layer_names(first))
    assert edit.float32_layers != random_layer_names(second)
    check_edits(second, (edit,))
    with StepSettings(second, (edit,)).active():
        found = [layer.compute_dtype for layer in second.layers]
    assert found == ["bfloat16", "float32", "bfloat16"]
    kept = StepMode(policy="mixed_bfloat16", float32_layers=edit.float32_layers)
    traced = tf.function(
        wrap_with_policy(kept.policy, lambda x: second(x, training=True), kept.float32_layers)
    )
    graph = traced.get_concrete_function(tf.ones((2, 6))).graph
    assert {op.outputs[0].dtype for op in graph.get_operations() if "RandomUniform" in op.type} == {
        tf.float32
    }
