"""A step whose activations are made again: the same weights to the bit, and what is refused."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from uncork.core.base.errors import EditRefused
from uncork.core.edits.step import (
    LayersInInput,
    MicroBatches,
    RecomputeActivations,
    StepEdit,
    StepsPerExecution,
)
from uncork.training.input.feed import Feed, iterate_executions
from uncork.training.memory.segments import cut_into_segments
from uncork.training.run.edit_checks import check_edits
from uncork.training.run.planned_step import PlannedStep
from uncork.training.run.step_settings import StepSettings
from uncork.training.state.snapshot import read_weights

L = keras.layers
ROWS = 12
DRAW = np.random.default_rng(0)
X = DRAW.normal(size=(ROWS, 6, 6, 2)).astype("float32")
WORDS = DRAW.integers(0, 9, (ROWS, 5)).astype("int32")
KIND = DRAW.integers(0, 3, ROWS)
SIZE = DRAW.normal(size=(ROWS, 1)).astype("float32")
LOGITS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
AGAIN = RecomputeActivations(segments=4)


class Penalty(L.Layer):
    """Adds to the loss, and counts what it was called for."""

    def build(self, shape: Any) -> None:
        self.calls = self.add_weight(shape=(), initializer="zeros", trainable=False)

    def call(self, inputs: Any) -> Any:
        self.calls.assign_add(1.0)
        self.add_loss(0.1 * keras.ops.mean(inputs**2))
        return inputs


def block(x: Any, filters: int) -> Any:
    """Of a residual network: with statistics, draws, penalties of weights and of what is given."""
    h = L.Conv2D(filters, 3, padding="same", kernel_regularizer="l2")(x)
    h = L.Activation("relu")(L.BatchNormalization()(h))
    h = L.Dropout(0.3)(Penalty()(h))
    h = L.Conv2D(filters, 3, padding="same", activity_regularizer="l2")(h)
    return L.Add()([L.Conv2D(filters, 1)(x), h])


def residual() -> Any:
    x = keras.Input((6, 6, 2))
    h = x
    for filters in (4, 4, 8):
        h = block(h, filters)
    model = keras.Model(x, L.Dense(3)(L.GlobalAveragePooling2D()(h)))
    model.compile(keras.optimizers.Adam(0.01), LOGITS, metrics=["accuracy"])
    model.optimizer.build(model.trainable_variables)
    return model


def of_words() -> Any:
    """A table, masks that go from layer to layer, attention, and the table's output used twice."""
    words = keras.Input((5,), dtype="int32")
    first = h = L.Embedding(9, 8, mask_zero=True)(words)
    for _ in range(3):
        a = L.LayerNormalization()(h)
        h = L.Add()([h, L.MultiHeadAttention(2, 4, dropout=0.2)(a, a)])
        h = L.Add()([h, L.Dense(8, activation="gelu")(L.LayerNormalization()(h))])
    h = L.Concatenate()([first, h])
    model = keras.Model(words, L.Dense(3)(L.GlobalAveragePooling1D()(h)))
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), LOGITS)
    model.optimizer.build(model.trainable_variables)
    return model


class Dropping(L.Layer):
    """Is not told whether it trains, but what is in it is."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = [L.Conv2D(4, 1), L.BatchNormalization(), L.Dropout(0.3)]

    def call(self, inputs: Any) -> Any:
        for layer in self.inner:
            inputs = layer(inputs)
        return inputs


def nested() -> Any:
    """A model in a model, whose first layer is used in two places."""
    body = [L.Conv2D(4, 3, padding="same"), Dropping(), L.BatchNormalization(), L.ReLU()]
    inner = keras.Sequential([keras.Input((6, 6, 4)), *body, L.Conv2D(4, 3, padding="same")])
    x, other = keras.Input((6, 6, 2)), keras.Input((6, 6, 2))
    shared = L.Conv2D(4, 1)
    h = L.Add()([inner(shared(x)), shared(other)])
    h = L.Flatten()(L.ReLU()(h))
    kind, size = L.Dense(3, name="kind")(h), L.Dense(1, name="size")(h)
    model = keras.Model([x, other], {"kind": kind, "size": size})
    model.compile(keras.optimizers.SGD(0.01), {"kind": LOGITS, "size": "mse"})
    return model


def mixed() -> Any:
    """In two dtypes, its loss scaled."""
    body = [L.Conv2D(4, 3, activation="relu"), L.BatchNormalization(), L.Flatten(), L.Dense(8)]
    policy = keras.mixed_precision.dtype_policy()
    keras.mixed_precision.set_dtype_policy("mixed_float16")
    try:
        for layer in body:
            layer.dtype_policy = "mixed_float16"
        last = L.Dense(3, dtype="float32")
        model = keras.Sequential([keras.Input((6, 6, 2)), *body, last])
    finally:
        keras.mixed_precision.set_dtype_policy(policy)
    model.compile(keras.optimizers.Adam(0.01), LOGITS)
    model.optimizer.build(model.trainable_variables)
    return model


def made(build: Any) -> Any:
    keras.utils.set_random_seed(5)
    return build()


def trained(model: Any, edits: tuple[Any, ...], x: Any, y: Any) -> Any:
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(5)
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


CASES = [
    (residual, X, KIND),
    (of_words, WORDS, KIND),
    (nested, (X, X[::-1]), {"kind": KIND, "size": SIZE}),
    (mixed, X, KIND),
]


@pytest.mark.every(6, first=3)
@pytest.mark.parametrize(("build", "x", "y"), CASES)
def test_made_again_it_is_the_same_training(build: Any, x: Any, y: Any) -> None:
    assert cut_into_segments(made(build), 4).recomputed_count >= 2
    ours, told = trained(made(build), (), x, y)
    theirs, as_told = trained(made(build), (AGAIN, StepsPerExecution(steps=2)), x, y)
    assert told.keys() == as_told.keys()
    for name in told:
        assert as_told[name] == pytest.approx(told[name], rel=1e-6), name
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


@pytest.mark.every(2)
@pytest.mark.parametrize("compiled", [False, True])
def test_each_segment_is_run_twice_and_sets_its_state_once(compiled: bool) -> None:
    runs = []

    class Counting(L.Layer):
        def call(self, inputs: Any) -> Any:
            runs.append(self.name)
            return inputs

    def counting() -> Any:
        body = [part for _ in range(4) for part in (L.Dense(8), L.BatchNormalization(), Counting())]
        model = keras.Sequential([keras.Input((4,)), *body, L.Dense(1)])
        model.compile("sgd", "mse", jit_compile=compiled)
        return model

    rows = X.reshape(ROWS, -1)[:, :4]
    ours, _ = trained(made(counting), (), rows, SIZE)
    model = made(counting)
    runs.clear()
    theirs, _ = trained(model, (AGAIN,), rows, SIZE)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)
    assert sorted(runs.count(name) for name in set(runs)) == [1, 2, 2, 2]


@pytest.mark.deep
def test_a_plan_in_force_is_taken_off_again() -> None:
    model = made(residual)
    planned = PlannedStep(model, (AGAIN,))
    with planned.active():
        model.fit(X, KIND, batch_size=6, verbose=0, validation_data=(X, KIND))
    assert int(model.optimizer.iterations) == 2
    assert model.train_function is None
    assert {"train_step", "make_train_function", "_run_through_graph"}.isdisjoint(vars(model))
    model.evaluate(X, KIND, verbose=0)


def test_a_model_is_cut_where_little_is_shared() -> None:
    x = h = keras.Input((8,))
    for _ in range(6):
        h = L.Add()([h, L.ReLU()(L.Dense(8)(h))])
    model = keras.Model(x, h)
    ((_, segments),) = cut_into_segments(model, 3).segmented_functions
    assert [each.is_recomputed for each in segments] == [True, True, False]
    nodes = [node for each in segments for node in each.nodes]
    assert len(nodes) == len(set(map(id, nodes))) == len(model.layers) - 1
    known = {id(each) for each in model.inputs}
    for each in segments:  # each is run on what those before it give
        assert {id(source) for source in each.sources} <= known
        known |= {id(target) for target in each.targets}
    # Between two blocks one tensor is shared, within them two.
    assert [len(each.sources) for each in segments] == [1, 1, 1]
    assert [len(each.nodes) for each in segments] == [6, 6, 6]


def test_a_model_in_a_model_is_cut_itself_where_it_is_large() -> None:
    model = made(nested)
    assert len(cut_into_segments(model, 2).segmented_functions) == 1
    inside, outside = cut_into_segments(model, 12).segmented_functions
    assert inside[0] is not outside[0] is model
    assert any(each.is_recomputed for each in inside[1])


class OwnStep(keras.Model):
    def train_step(self, data: Any) -> Any:
        return super().train_step(data)


class OwnCall(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.inner = [L.Dense(4), L.Dense(1)]

    def call(self, inputs: Any) -> Any:
        return self.inner[1](self.inner[0](inputs))


class Counter(L.Layer):
    def build(self, shape: Any) -> None:
        self.seen = tf.Variable(0.0, trainable=False)

    def call(self, inputs: Any) -> Any:
        self.seen.assign_add(1.0)
        return inputs


def functional(*layers: Any, kind: Any = keras.Model, **compiled: Any) -> Any:
    x = h = keras.Input((6,))
    for layer in (L.Dense(4), *layers, L.Dense(4), L.Dense(1)):
        h = layer(h)
    model = kind(x, h)
    model.compile(**{"optimizer": "sgd", "loss": "mse", **compiled})
    return model


def subclassed() -> Any:
    model = OwnCall()
    model(np.zeros((1, 6), "float32"))
    model.compile("sgd", "mse")
    return model


def scaled() -> Any:
    body = [L.Rescaling(2.0, name="scale"), L.Dense(4), L.Dense(4), L.Dense(1)]
    model = keras.Sequential([keras.Input((6,)), *body])
    model.compile("sgd", "mse")
    return model


@pytest.mark.parametrize(
    ("build", "edits", "why"),
    [
        (lambda: functional(kind=OwnStep), (), "overrides train_step"),
        (subclassed, (), "OwnCall overrides call"),
        (lambda: functional(Counter()), (), "has a tf.Variable"),
        (functional, (MicroBatches(parts=2),), "in micro-batches"),
        (scaled, (LayersInInput(layer_names=("scale",)),), "runs the first layers of the model"),
        (lambda: functional(run_eagerly=True), (), "runs eagerly"),
    ],
)
def test_what_cannot_be_cut_is_refused(build: Any, edits: tuple[StepEdit, ...], why: str) -> None:
    with pytest.raises(EditRefused, match=why):
        check_edits(build(), (*edits, AGAIN))


class Aside(L.Layer):
    """Keeps what it is asked to keep."""

    def __init__(self, does: Any) -> None:
        super().__init__()
        self.does = does

    def call(self, inputs: Any) -> Any:
        return inputs + 0.0 * self.does(self, inputs)


class Table(L.Layer):
    def build(self, shape: Any) -> None:
        self.rows = self.add_weight(shape=(9, 4))

    def call(self, inputs: Any) -> Any:
        numbers = keras.ops.cast(keras.ops.abs(inputs[:, 0]) % 9, "int32")
        return inputs + tf.gather(self.rows.value, numbers)


def asks_python(_layer: Any, inputs: Any) -> Any:
    return tf.ensure_shape(tf.py_function(lambda rows: rows, [inputs], inputs.dtype), [None, 4])


def keeps(layer: Any, inputs: Any) -> Any:
    layer.last = [inputs]
    return inputs


SHARED = keras.Variable(np.zeros((), "float32"), trainable=False)
WEIGHT = keras.Variable(np.zeros((), "float32"))


@pytest.mark.parametrize(
    ("layer", "why"),
    [
        (lambda: Aside(keeps), "stores a tensor of its call in the attribute last"),
        (
            lambda: Aside(lambda _, x: tf.random.uniform(tf.shape(x))),
            "side effects: Random",
        ),
        (lambda: Aside(lambda _, x: keras.random.normal((1,))), "without a seed"),
        (lambda: Aside(lambda _, x: SHARED.assign_add(1.0)), "of another object"),
        (lambda: Aside(lambda _, x: x * WEIGHT.value), "belongs to another object"),
        (lambda: Aside(asks_python), "EagerPyFunc"),
        (Table, "is sparse"),
        (lambda: L.SpectralNormalization(L.Dense(4)), "assigns to its own trainable weight"),
    ],
)
def test_what_a_second_run_might_change_is_refused_while_it_is_traced(layer: Any, why: str) -> None:
    model = functional(layer())
    planned = PlannedStep(model, (AGAIN,))
    with planned.active(), pytest.raises(EditRefused, match=why) as refused:
        model.fit(X.reshape(ROWS, -1)[:, :6], SIZE, verbose=0)
    assert "Exception encountered" not in refused.value.received  # which is how Keras tells it
    assert "_run_through_graph" not in vars(model)


def twice() -> Any:
    """One layer that adds to the loss, called for each of two inputs."""
    x = keras.Input((6, 6, 2))
    shared = L.Conv2D(4, 3, padding="same", activity_regularizer="l2")
    h = L.Conv2D(2, 1)(x)
    h = L.Conv2D(4, 1)(L.Add()([shared(h), shared(L.ReLU()(h))]))
    h = L.Conv2D(4, 1)(L.BatchNormalization()(h))
    model = keras.Model(x, L.Dense(3)(L.Flatten()(L.ReLU()(h))))
    model.compile("sgd", LOGITS)
    return model


def test_a_layer_that_adds_to_the_loss_twice_is_refused() -> None:
    model = made(twice)
    check_edits(model, (AGAIN,))
    with pytest.raises(EditRefused, match="several times"):
        trained(model, (AGAIN,), X, KIND)
