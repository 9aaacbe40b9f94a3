"""A step in parts: the same weights, losses and metrics, and what it is refused for."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from uncork.core.base.errors import EditRefused
from uncork.core.edits.step import FusedUpdates, LayersInInput, MicroBatches, StepsPerExecution
from uncork.training.input.feed import Feed, iterate_executions
from uncork.training.memory.batch_independence import (
    disable_random_layers,
    has_per_example_randomness,
    micro_batch_refusal,
)
from uncork.training.run.edit_checks import check_edits
from uncork.training.run.planned_step import PlannedStep
from uncork.training.run.step_settings import StepSettings
from uncork.training.state.snapshot import read_weights

L = keras.layers
ROWS = 22
DRAW = np.random.default_rng(0)
X = DRAW.normal(size=(ROWS, 6, 6, 2)).astype("float32")
KIND = DRAW.integers(0, 3, ROWS)
SIZE = DRAW.normal(size=(ROWS, 1)).astype("float32")
WEIGHT = DRAW.random(ROWS).astype("float32")
LOGITS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def one() -> Any:
    """A penalty on weights, another on what a layer gives, and a weight without a gradient."""
    body = [L.Conv2D(4, 3, activation="relu", kernel_regularizer="l2"), L.GlobalMaxPooling2D()]
    model = keras.Sequential([keras.Input((6, 6, 2)), *body, L.Dense(3, activity_regularizer="l2")])
    model.compile(keras.optimizers.Adam(0.01), LOGITS, metrics=["accuracy"])
    model.optimizer.build(model.trainable_variables)
    return model


def two() -> Any:
    x = keras.Input((6, 6, 2))
    h = L.Flatten()(x)
    model = keras.Model(x, {"kind": L.Dense(3, name="kind")(h), "size": L.Dense(1, name="size")(h)})
    losses = {"kind": LOGITS, "size": "mse"}
    weighed = {"kind": 1.0, "size": 0.3}
    model.compile(keras.optimizers.SGD(0.01, momentum=0.9), losses, loss_weights=weighed)
    model.optimizer.build(model.trainable_variables)
    return model


def summed() -> Any:
    """The graph does not know the shape of the first gradient where it does not know the batch."""
    body = [L.Reshape((72, 1)), L.Dense(4), L.Flatten(), L.Dense(1)]
    model = keras.Sequential([keras.Input((6, 6, 2)), *body])
    model.compile(keras.optimizers.SGD(0.001), keras.losses.MeanSquaredError(reduction="sum"))
    return model


def of_words() -> Any:
    """Rows of the table are looked up many times, and Keras squares each gradient by itself."""
    body = [L.Reshape((72,)), L.Embedding(5, 3), L.GlobalAveragePooling1D(), L.Dense(1)]
    scale = L.Lambda(lambda x: tf.cast(tf.abs(x) * 2, tf.int32) % 5)
    model = keras.Sequential([keras.Input((6, 6, 2)), scale, *body])
    model.compile(keras.optimizers.Adam(0.01), "mse")
    model.optimizer.build(model.trainable_variables)
    return model


def trained(model: Any, edits: tuple[Any, ...], *targets: Any, batch: int = 8) -> Any:
    data = tf.data.Dataset.from_tensor_slices((X, *targets)).batch(batch)
    logs: Any = {}
    settings = StepSettings(model, edits)
    with (
        settings.active(),
        settings.training_feed(Feed(x=data)).open_epoch_iterator(model) as epochs,
    ):
        model.reset_metrics()
        with epochs.catch_stop_iteration():
            for _, _, iterator in iterate_executions(epochs):
                logs = model.train_function(iterator)
    return read_weights(model), {name: float(value) for name, value in logs.items()}


def made(build: Any) -> Any:
    keras.utils.set_random_seed(5)
    model = build()
    model(X[:1])
    return model


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("build", "targets", "edits"),
    [
        # The last batch is smaller, and its parts uneven.
        (one, (KIND, WEIGHT), (MicroBatches(parts=3), StepsPerExecution(steps=2))),
        (two, ({"kind": KIND, "size": SIZE},), (MicroBatches(parts=4), FusedUpdates())),
        (summed, (SIZE,), (MicroBatches(parts=100),)),
        (of_words, (SIZE,), (MicroBatches(parts=3),)),
    ],
)
def test_in_parts_it_is_the_same_training(build: Any, targets: Any, edits: Any) -> None:
    ours, told = trained(made(build), (), *targets)
    theirs, as_told = trained(made(build), edits, *targets)
    assert told.keys() == as_told.keys()
    for name in told:
        assert as_told[name] == pytest.approx(told[name], rel=1e-5), name
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.deep
def test_xla_compiles_it_with_a_part_that_is_smaller() -> None:
    ours, told = trained(made(summed), (), SIZE)
    model = made(summed)
    model.jit_compile = True
    theirs, as_told = trained(model, (MicroBatches(parts=3),), SIZE)
    assert as_told == pytest.approx(told, rel=1e-5)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_xla_compiles_it_for_batches_of_one_known_size() -> None:
    """Eight rows in three parts: three, three and two."""
    data = tf.data.Dataset.from_tensor_slices((X, SIZE)).batch(8, drop_remainder=True)
    results = []
    for edits in ((), (MicroBatches(parts=3),)):
        model = made(summed)
        model.jit_compile = True
        with PlannedStep(model, edits).active():
            model.fit(data, verbose=0)
        results.append(read_weights(model))
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_rows_of_a_table_are_not_gone_through_under_xla() -> None:
    model = made(of_words)
    model.jit_compile = True
    with pytest.raises(EditRefused, match="is sparse"):
        trained(model, (MicroBatches(parts=3),), SIZE)


def test_a_plan_in_force_is_taken_off_again() -> None:
    model = made(one)
    planned = PlannedStep(model, (MicroBatches(parts=2),))
    with planned.active():
        model.fit(X, KIND, batch_size=8, verbose=0)
    assert int(model.optimizer.iterations) == 3  # once for each batch
    assert model.train_function is None
    assert {"train_step", "make_train_function"}.isdisjoint(vars(model))


class Own(keras.Model):
    def train_step(self, data: Any) -> Any:
        return super().train_step(data)


def functional(layer: Any, kind: Any = keras.Model, **compiled: Any) -> Any:
    x = keras.Input((6,))
    model = kind(x, layer(L.Dense(4)(x)))
    model.compile(**{"optimizer": "sgd", "loss": "mse", **compiled})
    return model


@pytest.mark.parametrize(
    ("build", "why"),
    [
        (lambda: functional(L.BatchNormalization()), "mean and variance over the whole batch"),
        (
            lambda: functional(L.SpectralNormalization(L.Dense(2))),
            "variables that a step may change",
        ),
        (lambda: functional(L.Dropout(0.5, noise_shape=(1, 4))), "uses random numbers"),
        (lambda: functional(L.Activation("relu"), kind=Own), "overrides train_step"),
        (
            lambda: functional(
                L.Activation("relu"),
                optimizer=keras.optimizers.SGD(gradient_accumulation_steps=2),
            ),
            "gradient_accumulation_steps",
        ),
        (
            lambda: keras.Sequential([keras.Input((6,), batch_size=8), L.Dense(1)]),
            "fixed batch size of 8",
        ),
    ],
)
def test_what_looks_across_the_batch_is_refused(build: Any, why: str) -> None:
    model = build()
    if not model.compiled:
        model.compile("sgd", "mse")
    with pytest.raises(EditRefused, match=why):
        check_edits(model, (MicroBatches(parts=2),))


def test_a_normalization_that_is_frozen_looks_at_each_example() -> None:
    frozen = L.BatchNormalization()
    frozen.trainable = False
    assert micro_batch_refusal(functional(frozen)) is None


def test_layers_in_the_input_are_made_for_the_whole_batch() -> None:
    model = keras.Sequential([keras.Input((6,)), L.Rescaling(2.0, name="scale"), L.Dense(1)])
    model.compile("sgd", "mse")
    with pytest.raises(EditRefused, match="whole batch"):
        check_edits(model, (LayersInInput(layer_names=("scale",)), MicroBatches(parts=2)))


@pytest.mark.parametrize(
    ("loss", "metrics", "why"),
    [
        (keras.losses.Dice(), [], "combines the examples"),
        (keras.losses.MeanSquaredError(reduction="mean_with_sample_weight"), [], "reduction"),
        ("mse", [lambda y, p: tf.reduce_max(y - p)], "the script defines the metric"),
    ],
)
def test_losses_and_metrics_of_the_whole_batch_are_refused(
    loss: Any, metrics: Any, why: str
) -> None:
    model = keras.Sequential([keras.Input((6, 6, 2)), L.Flatten(), L.Dense(1)])
    model.compile("sgd", loss, metrics=metrics)
    model.train_on_batch(X[:2], SIZE[:2])  # builds both
    with pytest.raises(EditRefused, match=why):
        check_edits(model, (MicroBatches(parts=2),))


def test_a_loss_that_ignores_some_targets_is_refused() -> None:
    """It is divided by how many there are of the others."""
    model = keras.Sequential([keras.Input((6, 6, 2)), L.Flatten(), L.Dense(3)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(True, ignore_class=2))
    model.train_on_batch(X[:2], KIND[:2])
    with pytest.raises(EditRefused, match="does not ignore"):
        check_edits(model, (MicroBatches(parts=2),))


def test_a_mask_that_reaches_the_loss_is_refused_while_it_is_traced() -> None:
    words = keras.Input((5,), dtype="int32")
    given = L.Dense(1)(L.Embedding(9, 3, mask_zero=True)(words))
    model = keras.Model(words, given)
    model.compile("sgd", "mse")
    planned = PlannedStep(model, (MicroBatches(parts=2),))
    with planned.active(), pytest.raises(EditRefused, match="masked"):
        model.fit(np.ones((8, 5), "int32"), np.ones((8, 5, 1)), verbose=0)


def test_dropout_draws_for_each_part_and_is_left_out_for_the_proof() -> None:
    def dropping() -> Any:
        model = keras.Sequential([keras.Input((6, 6, 2)), L.Flatten(), L.Dropout(0.5), L.Dense(1)])
        model.compile("sgd", "mse")
        return model

    assert has_per_example_randomness(made(dropping))
    assert micro_batch_refusal(made(dropping)) is None
    parts = (MicroBatches(parts=2),)
    ours, theirs = (trained(made(dropping), edits, SIZE)[0] for edits in ((), parts))
    assert not np.allclose(ours[0], theirs[0], rtol=1e-4, atol=1e-6)
    model, other = made(dropping), made(dropping)
    with disable_random_layers(model), disable_random_layers(other):
        ours, theirs = trained(model, (), SIZE)[0], trained(other, parts, SIZE)[0]
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-4, atol=1e-6)
    assert "call" not in vars(model.layers[1])


class Added(L.Layer):
    """All that there is of a loss."""

    def call(self, inputs: Any) -> Any:
        self.add_loss(tf.reduce_mean(inputs**2))
        return inputs


def without_a_loss() -> Any:
    model = keras.Sequential([keras.Input((6, 6, 2)), L.Flatten(), L.Dense(2), Added()])
    model.compile("sgd")
    return model


def test_a_loss_that_layers_add_is_cut_as_well() -> None:
    ours, told = trained(made(without_a_loss), ())
    theirs, as_told = trained(made(without_a_loss), (MicroBatches(parts=2),))
    assert as_told == pytest.approx(told, rel=1e-5)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
