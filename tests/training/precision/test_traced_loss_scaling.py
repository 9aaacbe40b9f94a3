"""The loss of a loop's step scaled for float16, as Keras's own optimizer would scale it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras.src.backend.tensorflow.optimizer import TFOptimizer
from keras.src.optimizers.base_optimizer import BaseOptimizer

from uncork.training.loop_step.compiled_step import CompiledStep
from uncork.training.loop_step.mode import StepMode
from uncork.training.precision.traced_loss_scaling import TracedLossScaler

HALF = StepMode(policy="mixed_float16")
GRADIENT = tf.GradientTape.gradient
APPLY = {kind: vars(kind).get("apply") for kind in (TFOptimizer, BaseOptimizer)}
X = np.random.default_rng(1).normal(size=(12, 8, 6)).astype("float32")
Y = X.sum(2, keepdims=True)


@pytest.fixture(autouse=True)
def _as_ever_afterwards():
    yield
    assert tf.GradientTape.gradient is GRADIENT
    assert {kind: vars(kind).get("apply") for kind in APPLY} == APPLY


class Training:
    """A small network, its loss scaled by its own optimizer where that does so."""

    def __init__(self, optimizer: Any, policy: str = "float32", *, table: bool = False) -> None:
        keras.utils.set_random_seed(1)
        layers = keras.layers
        body = [layers.Embedding(9, 6, dtype=policy), layers.Flatten(dtype=policy)] if table else []
        body += [layers.Dense(5, "relu", dtype=policy), layers.Dense(1, dtype=policy)]
        self.model = keras.Sequential([keras.Input((6,)), *body])
        self.optimizer = optimizer
        self.optimizer.build(self.model.trainable_variables)
        self.step = tf.function(self.eager)

    def eager(self, x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            predicted = tf.cast(self.model(x, training=True), tf.float32)
            loss = self.optimizer.scale_loss(tf.reduce_mean((y - predicted) ** 2))
        weights = self.model.trainable_variables
        gradients = tape.gradient(loss, weights)
        self.optimizer.apply_gradients(zip(gradients, weights, strict=True))
        return loss

    @property
    def values(self) -> list[Any]:
        return [v.numpy() for v in self.model.variables]


def run(training: Training, steps: int = 12) -> None:
    for x, y in zip(X[:steps], Y[:steps], strict=True):
        training.step(x, y)


def equal(ours: list[Any], theirs: list[Any]) -> None:
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.every(3)
@pytest.mark.parametrize(
    "made",
    [
        lambda: keras.optimizers.Adam(0.01),
        lambda: keras.optimizers.SGD(0.01, momentum=0.9, clipnorm=1.0),
    ],
)
@pytest.mark.parametrize("table", [False, True])
def test_bit_for_bit_as_keras_scales_it(made: Callable[[], Any], table: bool) -> None:
    ours = Training(made(), table=table)
    theirs = Training(keras.optimizers.LossScaleOptimizer(made()), "mixed_float16", table=table)
    step = CompiledStep(ours.step)
    step._ran_as_written = True
    step.mode = HALF
    if table:  # numbers of rows
        for x, y in zip(abs(X[:6].round()), Y[:6], strict=True):
            ours.step(x, y)
            theirs.step(x, y)
    else:
        run(ours)
        run(theirs)
    assert step.mode_refusal == ""
    equal(ours.values, theirs.values)
    assert ours.optimizer.iterations.numpy() == theirs.optimizer.inner_optimizer.iterations.numpy()
    assert type(ours.optimizer).__name__ in ("Adam", "SGD")


def test_without_it_small_gradients_vanish() -> None:
    """Of a loss that is divided by a thousand."""

    class Small(Training):
        def eager(self, x: Any, y: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = 1e-9 * tf.reduce_sum(tf.cast(self.model(x), tf.float32))
            weights = self.model.trainable_variables
            gradients = tape.gradient(loss, weights)
            self.optimizer.apply_gradients(zip(gradients, weights, strict=True))
            return gradients[0]

    written = Small(keras.optimizers.SGD(0.1), "mixed_float16")
    assert not np.any(written.step(X[0], Y[0]))
    scaled = Small(keras.optimizers.SGD(0.1))
    step = CompiledStep(scaled.step)
    step._ran_as_written = True
    step.mode = HALF
    assert np.any(scaled.step(X[0], Y[0]))


def test_a_step_that_is_not_finite_is_left_out_and_the_scale_grows_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        sys.modules["uncork.training.precision.traced_loss_scaling"], "_GOOD_STEPS", 3
    )
    training, scaling = Training(keras.optimizers.Adam(0.01)), TracedLossScaler()
    step = tf.function(scaling.wrap_function(training.eager))
    before = training.values
    step(X[0] * np.inf, Y[0])
    equal(training.values, before)
    assert scaling.scale == 2.0**14
    assert training.optimizer.iterations.numpy() == 0
    for _ in range(3):
        step(X[0], Y[0])
    assert scaling.scale == 2.0**15
    step(X[0], Y[0])
    assert scaling.scale == 2.0**15
    scaling.reset()
    assert scaling.scale == 2.0**15
    assert training.optimizer.iterations.numpy() == 4


def test_powers_of_two_change_nothing_in_float32() -> None:
    """A penalty on gradients, whose tape lies in another one; several targets, weighed."""

    def penalized(model: Any, optimizer: Any) -> Callable[[Any], Any]:
        def step(x: Any) -> Any:
            weights = model.trainable_variables
            with tf.GradientTape(persistent=True) as outer:
                with tf.GradientTape() as inner:
                    inner.watch(x)
                    scores = tf.tanh(model(x))
                slope = inner.gradient(scores, x)
                penalty = tf.reduce_mean((tf.norm(slope, axis=1) - 1.0) ** 2)
                two = {"scores": scores, "penalty": penalty}
            given = {"scores": tf.fill(tf.shape(scores), 0.1), "penalty": tf.constant(2.0)}
            gradients = outer.gradient(two, weights, output_gradients=given)
            optimizer.apply_gradients(zip(gradients, weights, strict=True))
            return slope

        return step

    found = []
    for scaled in (False, True):
        training, scaling = Training(keras.optimizers.SGD(0.1)), TracedLossScaler()
        step = penalized(training.model, training.optimizer)
        function = tf.function(scaling.wrap_function(step) if scaled else step)
        slopes = [function(tf.constant(x)).numpy() for x in X]
        found.append([*slopes, *training.values])
    equal(*found)


@pytest.mark.parametrize(
    ("optimizer", "why"),
    [
        (lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD()), "scales the loss"),
        (lambda: keras.optimizers.SGD(loss_scale_factor=8.0), "loss_scale_factor"),
        (lambda: keras.optimizers.SGD(gradient_accumulation_steps=4), "spoil"),
    ],
)
def test_an_optimizer_that_must_not_be_scaled_for(optimizer: Callable[[], Any], why: str) -> None:
    training = Training(optimizer())
    before = training.values
    step = CompiledStep(training.step)
    step._ran_as_written = True
    step.mode = HALF
    training.step(X[0] * 0, Y[0] * 0)
    assert why in step.mode_refusal
    equal(training.values, before)


def test_weights_that_are_updated_by_hand_are_left_alone() -> None:
    weight = tf.Variable(2.0)

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(weight * x)
        weight.assign_sub(0.1 * tape.gradient(loss, weight))
        return loss

    taken = CompiledStep(step)
    taken._ran_as_written = True
    taken.mode = HALF
    step(tf.constant([1.0]))
    assert "no Keras optimizer" in taken.mode_refusal
    assert (
        TracedLossScaler().refusal_reason == "the step computes no gradients with tf.GradientTape"
    )


def overflowing(step: Any) -> tuple[Any, TracedLossScaler]:
    """A step whose next gradient is beyond float32 as soon as it is scaled."""
    scaling = TracedLossScaler()
    function = tf.function(scaling.wrap_function(step))
    function(tf.constant([1.0]))
    assert scaling._variables is not None
    scaling._variables[0].assign(2.0**127)
    return function, scaling


def guarded(optimizer: Any, weight: Any, gradient: Any) -> None:
    if tf.reduce_all(tf.math.is_finite(gradient)):
        optimizer.apply([gradient], [weight])


def mended(optimizer: Any, weight: Any, gradient: Any) -> None:
    gradient = tf.where(tf.math.is_finite(gradient), gradient, 0.0)
    optimizer.apply([gradient], [weight])


def clipped(optimizer: Any, weight: Any, gradient: Any) -> None:
    optimizer.apply([tf.clip_by_value(gradient, -1.0, 1.0)], [weight])


@pytest.mark.parametrize("use", [guarded, mended, clipped])
def test_whatever_a_step_makes_of_its_gradients_the_scale_comes_down_again(use: Any) -> None:
    weight = keras.Variable([1.0])
    optimizer, average = keras.optimizers.SGD(0.1), tf.Variable([0.0])
    optimizer.build([weight])

    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(4.0 * x * weight)
        (gradient,) = tape.gradient(loss, [weight])
        average.assign(0.9 * average + 0.1 * gradient)  # of the user's own
        use(optimizer, weight, gradient)
        return gradient

    function, scaling = overflowing(step)
    before, steps = weight.numpy(), optimizer.iterations.numpy()
    function(tf.constant([1.0]))
    np.testing.assert_array_equal(weight.numpy(), before)
    assert optimizer.iterations.numpy() == steps or use is guarded
    assert scaling.scale == 2.0**126
    for _ in range(4):
        function(tf.constant([1.0]))
    assert optimizer.iterations.numpy() > steps
    assert np.isfinite(average.numpy()).all()
    assert np.isfinite(weight.numpy()).all()


def test_parts_of_one_tape_are_left_out_together() -> None:
    one, other = keras.Variable([1.0]), keras.Variable([1.0])
    optimizers = [keras.optimizers.SGD(0.1) for _ in range(2)]

    def step(x: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(4.0 * x * one + 0.1 * other)
        gradients = tape.gradient(loss, [one, other])
        for each, optimizer in zip(gradients, optimizers, strict=True):
            optimizer.apply([each], [one if optimizer is optimizers[0] else other])

    for optimizer, weight in zip(optimizers, (one, other), strict=True):
        optimizer.build([weight])
    function, scaling = overflowing(step)
    function(tf.constant([1.0]))
    assert [int(optimizer.iterations.numpy()) for optimizer in optimizers] == [1, 1]
    assert scaling.scale == 2.0**126


def test_what_is_made_again_for_a_gradient_is_scaled_once() -> None:
    weight = tf.Variable([2.0])
    optimizer = keras.optimizers.SGD(0.1)
    variable = keras.Variable([3.0])
    optimizer.build([variable])
    again = tf.recompute_grad(lambda x: x * variable.value * weight)

    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(again(x))
        found = tape.gradient(loss, [variable.value], None, tf.UnconnectedGradients.ZERO)
        optimizer.apply(found, [variable])
        return found[0]

    scaling = TracedLossScaler()
    function = tf.function(scaling.wrap_function(step))
    assert function(tf.constant([5.0])).numpy().tolist() == [10.0]
    assert scaling.refusal_reason == ""


def test_updates_in_a_loop_of_tensorflow_s_own_are_left_alone() -> None:
    """One of them that overflows would cost all of a call."""
    training, scaling = Training(keras.optimizers.SGD(0.1)), TracedLossScaler()

    def counted(x: Any, y: Any) -> None:
        for _ in tf.range(3):
            training.eager(x, y)

    def over_data(x: Any, y: Any) -> None:
        for rows in data:
            training.eager(rows, y)

    def in_a_function_of_its_own(x: Any, y: Any) -> None:
        for rows in data:
            once(rows, y)

    once = tf.function(training.eager)
    data = tf.data.Dataset.from_tensors(X[0]).repeat(3)
    for step in (counted, over_data, in_a_function_of_its_own):
        tf.function(scaling.wrap_function(step))(X[0], Y[0])
        assert "several times a call" in scaling.refusal_reason, step

    def at_times(x: Any, y: Any) -> None:
        if tf.reduce_sum(x) > -1e9:
            training.eager(x, y)

    tf.function(scaling.wrap_function(at_times))(X[0], Y[0])
    assert scaling.refusal_reason == ""
    again = tf.function(scaling.wrap_function(training.eager))
    again(X[0], Y[0])
    assert scaling.refusal_reason == ""


def test_whole_numbers_and_complex_ones() -> None:
    weight, count = keras.Variable([1.0]), tf.Variable([2])
    optimizer = keras.optimizers.SGD(0.1)
    optimizer.build([weight])

    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            wave = tf.complex(weight * x, x)
            loss = tf.reduce_sum(tf.abs(wave))
            tape.watch(wave)
        zero = tf.UnconnectedGradients.ZERO
        one, two, three = tape.gradient(loss, [weight.value, count, wave], None, zero)
        optimizer.apply([one], [weight])
        return two, three

    scaling = TracedLossScaler()
    whole, wave = tf.function(scaling.wrap_function(step))(tf.constant([3.0]))
    assert whole.dtype == tf.int32
    assert wave.dtype == tf.complex64
    assert scaling.refusal_reason == ""


def test_gradients_of_what_is_ragged_are_left_alone() -> None:
    training, scaling = Training(keras.optimizers.SGD(0.1)), TracedLossScaler()

    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            rows = tf.RaggedTensor.from_row_lengths(training.model(x)[:, 0], [3, 5])
        weights = training.model.trainable_variables
        gradients = tape.gradient(rows, weights)
        training.optimizer.apply_gradients(zip(gradients, weights, strict=True))

    tf.function(scaling.wrap_function(step))(X[0])
    assert "ragged" in scaling.refusal_reason


def test_two_optimizers_share_the_scale() -> None:
    one, other = (Training(keras.optimizers.Adam(0.01)) for _ in range(2))
    scaling = TracedLossScaler()
    both = tf.function(scaling.wrap_function(lambda x, y: one.eager(x, y) + other.eager(x, y)))
    for _ in range(3):
        both(X[0], Y[0])
    assert one.optimizer.iterations.numpy() == other.optimizer.iterations.numpy() == 3
    assert scaling.refusal_reason == ""
