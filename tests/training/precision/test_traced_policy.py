"""Steps whose layers compute in another precision only where they are traced for it."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from uncork.training.loop_step.compiled_step import CompiledStep
from uncork.training.loop_step.eager_step import EagerStep
from uncork.training.loop_step.mode import StepMode
from uncork.training.precision.traced_policy import wrap_with_policy

X, Y = tf.random.stateless_normal((8, 3), (1, 2)), tf.random.stateless_normal((8, 1), (3, 4))
LOW, FULL = StepMode(policy="mixed_bfloat16"), StepMode(policy="float32")


class Net(keras.Model):
    """Layers of several kinds, one of which keeps numbers of its own."""

    def __init__(self, policy="float32"):
        super().__init__(dtype=policy)
        self.scale = keras.layers.Normalization(mean=[1.0] * 3, variance=[4.0] * 3, dtype=policy)
        self.scale.build((None, 3))  # built by a model that is built itself, Keras loses its mean
        self.hidden = [keras.layers.Dense(8, "relu", dtype=policy) for _ in range(2)]
        self.norm = keras.layers.BatchNormalization(dtype=policy)
        self.head = keras.layers.Dense(1, dtype=policy)

    def call(self, x, training=False):
        x = self.scale(x)
        for layer in self.hidden:
            x = layer(x)
        return self.head(self.norm(x, training=training))


class Training:
    def __init__(self, policy="float32", *, build=True):
        keras.utils.set_random_seed(1)
        self.model = Net(policy)
        if build:
            self.model(X)
        self.optimizer = keras.optimizers.Adam(0.01)

    def eager(self, x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((y - tf.cast(self.model(x, training=True), tf.float32)) ** 2)
        gradients = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables, strict=True))
        return loss

    @tf.function
    def step(self, x, y):
        if tf.reduce_sum(y) > 1e9:  # a branch, which TensorFlow must convert
            x = -x
        return self.eager(x, y)

    @property
    def weights(self):
        return [v.numpy() for v in self.model.variables]


def trained(training, steps=4):
    return [float(training.step(X, Y)) for _ in range(steps)]


def products(function):
    """Dtypes of all matrix products of a concrete function."""
    return {op.outputs[0].dtype for op in function.graph.get_operations() if op.type == "MatMul"}


def test_a_step_in_bfloat16_is_the_step_of_a_model_made_so():
    switched, made = Training(), Training("mixed_bfloat16")
    step = CompiledStep(switched.step)
    first = trained(switched, 1)
    made.step(X, Y)
    for ours, theirs in zip(switched.model.variables, made.model.variables, strict=True):
        theirs.assign(ours)
    for ours, theirs in zip(switched.optimizer.variables, made.optimizer.variables, strict=True):
        theirs.assign(ours)
    step.mode = LOW
    assert trained(switched) == trained(made)
    assert step.mode_refusal == ""
    for ours, theirs in zip(switched.weights, made.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert first
    low = step.graph_function(LOW).get_concrete_function(X, Y)
    assert products(low) == {tf.bfloat16}
    assert low.structured_outputs.dtype == tf.float32


def test_outside_of_the_step_the_model_is_as_it_was_made():
    training, plain = Training(), Training()
    step = CompiledStep(training.step)
    trained(training, 1)
    step.mode = LOW
    trained(training)
    model = training.model
    assert {layer.dtype_policy.name for layer in model._flatten_layers()} == {"float32"}
    assert model(X).dtype == tf.float32
    for ours, theirs in zip(model.variables, plain.model.variables, strict=True):
        ours.assign(theirs)
    np.testing.assert_array_equal(model(X), plain.model(X))
    assert model.scale.mean.dtype == tf.float32
    assert hasattr(model.scale.mean, "numpy"), "no tensor of a graph is left on the layer"


def test_layers_to_keep_compute_as_they_were_made():
    training = Training()
    step = CompiledStep(training.step)
    trained(training, 1)
    kept = StepMode(policy="mixed_bfloat16", float32_layers=(training.model.head.name,))
    step.mode = kept
    trained(training)
    assert step.mode_refusal == ""
    assert products(step.graph_function(kept).get_concrete_function(X, Y)) == {
        tf.bfloat16,
        tf.float32,
    }


@pytest.mark.deep
def test_back_to_the_step_as_written():
    training, plain = Training(), Training()
    step = CompiledStep(training.step)
    trained(training, 1)
    step.mode = LOW
    trained(training)
    for ours, theirs in zip(training.model.variables, plain.model.variables, strict=True):
        ours.assign(theirs)
    for variable in training.optimizer.variables:
        variable.assign(tf.zeros_like(variable))
    step.mode = StepMode.ORIGINAL
    learning_rate = tf.constant(0.01)
    for each in (training, plain):
        each.optimizer.learning_rate = learning_rate
    assert trained(training) == trained(plain)


def test_a_model_in_bfloat16_trains_in_float32():
    switched = Training("mixed_bfloat16")
    step = CompiledStep(switched.step)
    trained(switched, 1)
    step.mode = FULL
    assert trained(switched)
    assert step.mode_refusal == ""
    assert products(step.graph_function(FULL).get_concrete_function(X, Y)) == {tf.float32}
    assert switched.model.compute_dtype == "bfloat16"


def test_layers_built_by_the_first_call_are_built_as_written():
    training = Training(build=False)
    step = CompiledStep(training.step)
    step.mode = LOW
    trained(training)
    assert step.mode_refusal == ""
    assert {layer.dtype_policy.name for layer in training.model._flatten_layers()} == {"float32"}
    assert products(step.graph_function(LOW).get_concrete_function(X, Y)) == {tf.bfloat16}


@pytest.mark.deep
def test_under_xla_too():
    training = Training()
    step = CompiledStep(training.step)
    losses = trained(training, 1)
    step.mode = StepMode(is_xla=True, policy="mixed_bfloat16")
    assert trained(training)[-1] < losses[0]
    assert step.mode_refusal == ""


def test_an_eager_step_as_a_graph_in_bfloat16():
    training = Training()
    step = EagerStep(Training.eager)
    try:
        losses = [float(training.eager(X, Y)) for _ in range(2)]
        step.mode = StepMode(is_graph=True, policy="mixed_bfloat16")
        losses += [float(training.eager(X, Y)) for _ in range(4)]
        assert step.refusal == ""
        assert step.mode_refusal == ""
        assert losses[-1] < losses[0]
        graph = step.graph_function(step.mode)
        assert graph.experimental_get_tracing_count() == 1
        assert products(graph.get_concrete_function(training, X, Y)) == {tf.bfloat16}
    finally:
        step.restore()


def test_code_that_needs_the_dtype_goes_on_as_written():
    keras.utils.set_random_seed(1)
    heard = []
    dense = keras.layers.Dense(1)
    dense.build((None, 3))

    class Doubling(keras.layers.Layer):
        def call(self, x):
            return x + tf.ones(3)  # float32, whatever it is called on

    doubling = Doubling()
    step = tf.function(lambda x: dense(doubling(x)))
    expected = step(X).numpy()
    taken = CompiledStep(step, lambda how, why: heard.append((how, why)))
    step(X)
    taken.mode = LOW
    np.testing.assert_array_equal(step(X), expected)
    ((how, why),) = heard
    assert how == "unmodified"
    assert why == taken.mode_refusal


def test_a_function_that_others_call_too_is_left_alone():
    training = Training()
    forward = tf.function(lambda x: training.model(x, training=True))
    step = tf.function(lambda x: tf.reduce_sum(forward(x)))
    taken = CompiledStep(step)
    step(X)
    taken.mode = LOW
    step(X)
    assert "another tf.function" in taken.mode_refusal


def test_such_a_function_inside_a_loop_is_seen_too():
    training = Training()
    forward = tf.function(lambda x: tf.reduce_sum(training.model(x, training=True)))

    @tf.function
    def step(x):
        total = 0.0
        for _ in tf.range(2):
            total += forward(x)
        return total

    taken = CompiledStep(step)
    step(X)
    taken.mode = LOW
    step(X)
    assert "another tf.function" in taken.mode_refusal


def test_what_is_returned_keeps_its_dtype():
    dense = keras.layers.Dense(1)
    dense.build((None, 3))
    step = tf.function(lambda x: tf.cast(dense(x), dense.compute_dtype))
    taken = CompiledStep(step)
    step(X)
    taken.mode = LOW
    assert step(X).dtype == tf.float32
    assert "dtype of the step's result" in taken.mode_refusal


def test_layers_in_other_dtypes_keep_them():
    double = keras.layers.Dense(2, dtype="float64")
    half = keras.layers.Dense(2)
    for layer in (double, half):
        layer.build((None, 3))
    traced = tf.function(wrap_with_policy("mixed_bfloat16", lambda x: (double(x), half(x))))
    assert products(traced.get_concrete_function(X)) == {tf.float64, tf.bfloat16}


def test_an_error_while_it_is_traced_leaves_the_layers_as_they_were():
    dense = keras.layers.Dense(1)
    dense.build((None, 3))
    call = keras.layers.Layer.__call__

    def fail(x):
        dense(x)
        raise KeyError("no such thing")

    with pytest.raises(KeyError):
        tf.function(wrap_with_policy("mixed_bfloat16", fail))(X)
    assert dense.dtype_policy.name == "float32"
    assert keras.layers.Layer.__call__ is call


def test_a_mask_reaches_the_loss():
    """Keras keeps it on the tensor that a layer gives; padding is no part of the loss."""
    keras.utils.set_random_seed(1)
    words = keras.layers.Embedding(9, 8, mask_zero=True)
    head = keras.layers.Dense(1)
    loss_fn = keras.losses.MeanSquaredError()
    x, y = tf.constant([[3, 5, 0, 0], [1, 0, 0, 0]]), tf.constant([[[1.0]] * 4] * 2)

    @tf.function
    def told(x, y):
        return loss_fn(y, head(words(x)))

    step = CompiledStep(told)
    as_written = float(told(x, y))
    padded = float(tf.reduce_mean((y - head(words(x))) ** 2))
    step.mode = LOW
    assert float(told(x, y)) == pytest.approx(as_written, rel=0.01)
    assert as_written != pytest.approx(padded, rel=0.02)
