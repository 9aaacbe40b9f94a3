"""float16 with Keras's loss scaling, around an optimizer that stays the user's."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from uncork.core.base.errors import EditRefused
from uncork.core.edits.step import (
    DtypePolicy,
    FlatUpdates,
    FusedUpdates,
    JitCompile,
    LargerBatch,
    StepsPerExecution,
)
from uncork.training.run.edit_checks import check_edits
from uncork.training.run.planned_step import PlannedStep
from uncork.training.run.step_settings import StepSettings

FLOAT16 = DtypePolicy(policy="mixed_float16")
RELEASE = tuple(int(part) for part in keras.__version__.split(".")[:2])
X = np.random.default_rng(1).normal(size=(48, 8)).astype("float32")
Y = np.random.default_rng(2).normal(size=(48, 1)).astype("float32")


def network(policy="float32", optimizer="adam", *, large=1.0, **compiled):
    """Built under a policy; a large number in it overflows float16 until the scale is lower."""
    keras.utils.set_random_seed(1)
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        layers = [keras.layers.Dense(6, activation="relu") for _ in range(4)]
        model = keras.Sequential([
            keras.Input((8,)), *layers, keras.layers.Rescaling(large), keras.layers.Dense(1),
        ])  # fmt: skip
        adam, sgd = keras.optimizers.Adam(0.01), keras.optimizers.SGD(1e-6, momentum=0.9)
        model.compile(adam if optimizer == "adam" else sgd, "mse", **compiled)
    finally:
        keras.config.set_dtype_policy(before)
    return model


def train(model, **arguments):
    return model.fit(X, Y, batch_size=4, shuffle=False, verbose=0, epochs=3, **arguments)


def values(model):
    """Of the weights and of what the optimizer itself keeps."""
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    return [keras.ops.convert_to_numpy(v) for v in (*model.variables, *optimizer.variables)]


def assert_equal(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.deep
@pytest.mark.every(4)
@pytest.mark.skipif(
    RELEASE < (3, 10), reason="Keras before 3.10 writes the casts between layers into the model"
)
@pytest.mark.parametrize("large", [1.0, 300.0])
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_a_switched_model_trains_like_one_made_so(optimizer, large):
    """Steps that overflow are left out by both, and the scale goes down with both."""
    ours, theirs = (
        network(large=large, optimizer=optimizer),
        network("mixed_float16", optimizer, large=large),
    )
    assert isinstance(theirs.optimizer, keras.optimizers.LossScaleOptimizer)
    with StepSettings(ours, (FLOAT16,)).active():
        found = train(ours)
    made = train(theirs)
    assert found.history == made.history
    assert_equal(values(ours), values(theirs))
    left_out = 3 * 12 - int(ours.optimizer.iterations)
    assert (left_out > 0) is (large > 1)
    assert int(ours.optimizer.iterations) == int(theirs.optimizer.iterations)


def test_the_optimizer_is_the_user_s_again():
    model = network()
    optimizer, before = model.optimizer, dict(vars(model.optimizer))
    config = optimizer.get_config()
    with StepSettings(model, (FLOAT16,)).active():
        assert model.optimizer is optimizer
        assert optimizer.get_config() == config
        train(model)
    assert {"apply", "scale_loss"}.isdisjoint(vars(optimizer))
    assert set(vars(optimizer)) >= set(before)
    assert float(optimizer.scale_loss(3.0)) == 3.0
    train(model)
    assert int(optimizer.iterations) == 2 * 3 * 12


def test_an_error_inside_leaves_the_optimizer_alone():
    model = network()
    with pytest.raises(ZeroDivisionError), StepSettings(model, (FLOAT16,)).active():
        raise ZeroDivisionError
    assert {"apply", "scale_loss"}.isdisjoint(vars(model.optimizer))


def test_each_trial_begins_at_the_first_scale():
    """What one of them has learnt must not help the next."""
    model = network(large=300.0)
    settings = StepSettings(model, (FLOAT16,))
    model.optimizer.build(model.trainable_variables)
    before, losses = values(model), []
    for _ in range(2):
        for variable, value in zip(
            model.variables + model.optimizer.variables, before, strict=True
        ):
            variable.assign(value)
        with settings.active():
            losses.append(train(model).history["loss"])
    assert losses[0] == losses[1]


def test_a_plan_keeps_the_scale_from_fit_to_fit():
    model = network(large=300.0)
    planned = PlannedStep(model, (FLOAT16,))
    left_out = []
    for _ in range(2):
        before = int(model.optimizer.iterations)
        with planned.active():
            train(model)
        left_out.append(3 * 12 - (int(model.optimizer.iterations) - before))
    assert left_out[0] > left_out[1] == 0


def test_what_is_saved_meanwhile_is_as_the_user_made_it(tmp_path):
    model = network()
    save = keras.callbacks.ModelCheckpoint(tmp_path / "m.keras")
    with PlannedStep(model, (FLOAT16,)).active():
        train(model, callbacks=[save])
    loaded = keras.models.load_model(tmp_path / "m.keras")
    assert type(loaded.optimizer) is keras.optimizers.Adam
    assert {layer.dtype_policy.name for layer in loaded.layers} == {"float32"}
    assert_equal(values(loaded), values(model))


@pytest.mark.every(10)
@pytest.mark.parametrize(
    "others",
    [
        (JitCompile(),),
        (StepsPerExecution(steps=3),),
        (FlatUpdates(),),
        (FusedUpdates(),),
        (StepsPerExecution(steps=3), FlatUpdates(), FusedUpdates()),
    ],
)
@pytest.mark.parametrize("large", [1.0, 300.0])
def test_it_stands_on_what_was_kept_before(others, large):
    """The same losses to what float16 rounds, steps left out among them."""
    alone, together = network(large=large), network(large=large)
    with StepSettings(alone, (FLOAT16,)).active():
        expected = train(alone).history["loss"]
    with StepSettings(together, (*others, FLOAT16)).active():
        found = train(together).history["loss"]
    np.testing.assert_allclose(found, expected, rtol=0.02)
    assert int(together.optimizer.iterations) == int(alone.optimizer.iterations)


class OwnStep(keras.Model):
    def __init__(self, *, scaled):
        super().__init__()
        self.dense, self.scaled = keras.layers.Dense(1), scaled

    def call(self, x):
        return self.dense(x)

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x, y, self(x, training=True))
            scaled = self.optimizer.scale_loss(loss) if self.scaled else loss
        gradients = tape.gradient(scaled, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return {"loss": loss}


def test_a_step_of_the_user_s_own_must_scale_its_loss():
    for scaled in (True, False):
        model = OwnStep(scaled=scaled)
        model.compile("sgd", "mse")
        model(X[:1])
        before = model.get_weights()
        with StepSettings(model, (FLOAT16,)).active():
            if scaled:
                train(model)
                continue
            with pytest.raises(EditRefused, match="does not scale its loss"):
                train(model)
        assert_equal(model.get_weights(), before)


@pytest.mark.parametrize(
    ("optimizer", "edits", "why"),
    [
        (keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam()), (), "already"),
        (keras.optimizers.Adam(loss_scale_factor=8.0), (), "loss_scale_factor"),
        (keras.optimizers.Adam(gradient_accumulation_steps=2), (), "would spoil the sum"),
        (
            keras.optimizers.Adam(),
            (LargerBatch(batch_multiplier=2, learning_rate_multiplier=2.0),),
            "larger batch",
        ),
    ],
)
def test_an_optimizer_that_keeps_its_own_count_is_left_alone(optimizer, edits, why):
    model = network()
    model.compile(optimizer, "mse")
    with pytest.raises(EditRefused, match=why):
        check_edits(model, (*edits, FLOAT16))


def test_a_step_with_two_optimizers_is_left_alone():
    model = OwnStep(scaled=True)
    model.compile("sgd", "mse")
    model(X[:1])
    model.other = keras.optimizers.SGD()
    with pytest.raises(EditRefused, match="other optimizers"):
        check_edits(model, (FLOAT16,))


def test_a_model_without_weights_is_left_alone():
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    with pytest.raises(EditRefused, match="no weights yet"):
        check_edits(model, (FLOAT16,))


class Momentum(keras.optimizers.Optimizer):
    """As Keras's guide writes one: whether it is built already it does not ask."""

    def build(self, variables):
        super().build(variables)
        self.momentums = [self.add_variable_from_reference(v, "momentum") for v in variables]

    def update_step(self, gradient, variable, learning_rate):
        momentum = self.momentums[self._get_variable_index(variable)]
        self.assign(momentum, 0.9 * momentum + gradient)
        self.assign_sub(variable, learning_rate * momentum)


def test_an_optimizer_of_the_user_s_own_is_built_once():
    model = network()
    model.compile(Momentum(0.01), "mse")
    model.optimizer.build(model.trainable_variables)
    kept, count = model.optimizer.momentums, len(model.optimizer.variables)
    with StepSettings(model, (FLOAT16,)).active():
        train(model)
    assert model.optimizer.momentums is kept
    assert len(model.optimizer.variables) == count
