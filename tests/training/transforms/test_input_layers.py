"""The first layers of a model in its input pipeline: the same training, the same model."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from uncork.core.base.errors import EditRefused
from uncork.core.edits.step import FlatUpdates, JitCompile, LayersInInput, StepsPerExecution
from uncork.training.input.feed import Feed
from uncork.training.run.fit_runner import FitRunner
from uncork.training.run.planned_step import PlannedStep
from uncork.training.run.replay import BatchRecording, run_replay
from uncork.training.run.step_settings import StepSettings
from uncork.training.state.snapshot import Snapshot
from uncork.training.transforms.input_layers import (
    LayersInPipeline,
    PreprocessedBatch,
    find_preprocessing_layers,
    has_random_layers,
)

TEXTS = ["a b c d e", "b c d", "d e f a a", "x y z"] * 6
LABELS = [[0.0], [1.0], [1.0], [0.0]] * 6
ORDER = [0, 1, 2, 3, 4, 5, 2, 1, 0, 0]


class DropWords(layers.Layer):
    """Leave out one word in five."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.seeds = keras.random.SeedGenerator(4)

    def call(self, texts, training=False):
        if not training:
            return texts
        words = tf.strings.split(texts)
        kept = keras.random.uniform(tf.shape(words.flat_values), seed=self.seeds) > 0.2
        kept = tf.RaggedTensor.from_row_splits(kept, words.row_splits)
        return tf.strings.reduce_join(tf.ragged.boolean_mask(words, kept), axis=-1, separator=" ")


def counting():
    count = layers.TextVectorization(20, output_mode="count", pad_to_max_tokens=True, name="count")
    count.adapt(TEXTS)
    return count


def of_words(*first, functional=False):
    begin = keras.Input((), dtype="string")
    rest = [
        layers.Dense(8, "relu", name="hidden"),
        layers.Dropout(0.3, name="drop"),
        layers.Dense(1, name="last"),
    ]
    if functional:
        x = begin
        for layer in (*first, *rest):
            x = layer(x)
        model = keras.Model(begin, x)
    else:
        model = keras.Sequential([begin, *first, *rest])
    model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True), metrics=["accuracy"])
    model.optimizer.build(model.trainable_variables)
    return model


def reviews():
    return tf.data.Dataset.from_tensor_slices((TEXTS, LABELS)).batch(4)


def names(model):
    return tuple(layer.name for layer in find_preprocessing_layers(model))


def edit_of(model):
    begin = find_preprocessing_layers(model)
    return LayersInInput(layer_names=names(model), is_random=has_random_layers(begin))


def moved(*first, **how):
    model = of_words(*first, **how)
    return model, edit_of(model)


KINDS = {
    "what draws nothing": lambda: moved(counting()),
    "what draws": lambda: moved(DropWords(name="thin"), counting()),
    "one inside another": lambda: moved(
        keras.Sequential([keras.Input((), dtype="string"), DropWords(), counting()], name="both")
    ),
    "a functional model": lambda: moved(DropWords(name="thin"), counting(), functional=True),
}


@pytest.mark.every(4)
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_the_same_training_bit_for_bit(kind):
    model, edit = KINDS[kind]()
    assert edit.is_random == (kind != "what draws nothing")
    snapshot = Snapshot(model)
    recording = BatchRecording.from_feed(
        Feed.from_arguments({"x": reviews()}), model, max_batches=6, max_bytes=1 << 20
    )
    steps = ((), (edit,), (edit, StepsPerExecution(steps=3), FlatUpdates()))
    plain, alone, grouped = (
        run_replay(StepSettings(model, edits), snapshot, recording.feed(ORDER)) for edits in steps
    )
    assert alone.is_equal_to(plain)
    assert alone.losses == plain.losses
    assert grouped.is_equal_to(plain)


def of_arrays():
    return {"x": tf.constant(TEXTS), "y": np.array(LABELS), "batch_size": 5}


@pytest.mark.every(4)
@pytest.mark.parametrize("calls", [1, 2])
@pytest.mark.parametrize("data", [lambda: {"x": reviews()}, of_arrays])
def test_fit_trains_evaluates_and_saves_the_same_model(calls, data, tmp_path):
    def trained(*, planned):
        keras.utils.set_random_seed(5)
        model, edit = KINDS["what draws"]()
        seeds = model.layers[0].seeds
        step = PlannedStep(model, (edit,))
        for number in range(calls):
            given = {**data(), "validation_data": reviews(), "epochs": 2, "verbose": 0}
            if planned:
                x = step.training_x(given)
                with step.active():
                    history = model.fit(**{**given, "x": x}).history
            else:
                history = model.fit(**given).history
            if number + 1 < calls:
                seeds.state.assign([9, 9])  # ahead of the training by then
        model.save_weights(tmp_path / f"{planned}.weights.h5")
        # Called as ever, in training as well.
        seeds.state.assign([7, 7])
        told = [model.predict(np.array(TEXTS[:5], object), verbose=0)]
        told += [model(tf.constant(TEXTS[:5]), training=True).numpy()]
        return history, [w.numpy() for w in model.trainable_weights], told, vars(model).keys()

    plain, planned = trained(planned=False), trained(planned=True)
    assert planned[0] == plain[0]
    assert all(np.array_equal(a, b) for a, b in zip(planned[1], plain[1], strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(planned[2], plain[2], strict=True))
    assert planned[3] == plain[3]


@pytest.mark.parametrize("many", [False, True])
def test_outputs_come_as_the_model_gives_them(many):
    begin = keras.Input((6,))
    scale = layers.Rescaling(0.5, name="scale")(begin)
    ends = {name: layers.Dense(1, name=name)(scale) for name in ("one", "two")[: 1 + many]}
    model = keras.Model(begin, ends)
    model.compile("sgd", loss=dict.fromkeys(ends, "mse"))
    rows = np.random.default_rng(0).normal(size=(12, 6)).astype("float32")
    data = tf.data.Dataset.from_tensor_slices((rows, dict.fromkeys(ends, rows[:, :1]))).batch(4)
    snapshot = Snapshot(model)
    recording = BatchRecording.from_feed(
        Feed.from_arguments({"x": data}), model, max_batches=3, max_bytes=1 << 20
    )
    plain, other = (
        run_replay(StepSettings(model, edits), snapshot, recording.feed([0, 1, 2]))
        for edits in ((), (edit_of(model),))
    )
    assert other.is_equal_to(plain)


def test_weights_of_samples_come_along():
    model, edit = KINDS["what draws nothing"]()
    weights = np.linspace(0.1, 2.0, len(TEXTS)).astype("float32")
    data = tf.data.Dataset.from_tensor_slices((TEXTS, LABELS, weights)).batch(4)
    snapshot = Snapshot(model)
    recording = BatchRecording.from_feed(
        Feed.from_arguments({"x": data}), model, max_batches=6, max_bytes=1 << 20
    )
    plain, other = (
        run_replay(StepSettings(model, edits), snapshot, recording.feed(ORDER))
        for edits in ((), (edit,))
    )
    assert other.is_equal_to(plain)
    assert other.losses == plain.losses


def test_a_resident_step_is_one_without_these_layers():
    model, edit = KINDS["what draws"]()
    settings = StepSettings(model, (edit,))
    batch = next(iter(reviews()))
    fed = settings.training_feed(
        Feed.from_arguments({"x": reviews()}).with_resident_batches([batch])
    )
    assert fed.resident_batch_count == 1
    first = next(iter(fed.x))
    assert isinstance(first, PreprocessedBatch)
    assert first.layer_outputs.shape == (4, 20)
    before = model.layers[0].seeds.state.numpy()
    runner = FitRunner(
        settings,
        Feed.from_arguments({"x": reviews()}).with_resident_batches([batch]),
        Snapshot(model),
        4.0,
    )
    runner.prime()
    drawn = model.layers[0].seeds.state.numpy() - before
    assert np.abs(drawn).sum() <= 2, "once for the batch that is held, and not in each step"


def pictures():
    draw = np.random.default_rng(0)
    x = draw.normal(size=(20, 8, 8, 3)).astype("float32")
    return tf.data.Dataset.from_tensor_slices((x, draw.normal(size=(20, 1)))).batch(4)


def turning():
    parts = [layers.RandomRotation(0.1, seed=3, name="turn"), layers.Flatten(), layers.Dense(1)]
    model = keras.Sequential([keras.Input((8, 8, 3)), *parts])
    model.compile("adam", "mse", jit_compile=False)
    return model


def test_xla_compiles_a_step_that_what_it_cannot_take_has_left(monkeypatch):
    model = turning()
    edits = (LayersInInput(layer_names=("turn",), is_random=True), JitCompile())
    with pytest.raises(EditRefused, match="RandomRotation"):
        StepSettings(model, edits[1:])
    snapshot = Snapshot(model)
    recording = BatchRecording.from_feed(
        Feed.from_arguments({"x": pictures()}), model, max_batches=5, max_bytes=1 << 20
    )
    order = [0, 1, 2, 3, 4, 0]
    plain, compiled = (
        run_replay(StepSettings(model, each), snapshot, recording.feed(order))
        for each in ((), edits)
    )
    assert compiled.distance(plain) < 1e-5
    asked, function = [], tf.function

    def watched(*args, **kwargs):
        asked.append(kwargs.get("jit_compile"))
        return function(*args, **kwargs)

    monkeypatch.setattr(tf, "function", watched)
    with StepSettings(model, edits).active():
        assert True in asked
        asked.clear()
        model.make_test_function(force=True)
        assert True not in asked


def test_what_stays_in_the_step_still_keeps_xla_from_it():
    parts = [layers.Rescaling(2.0, name="scale"), layers.Conv2D(2, 3)]
    model = keras.Sequential([keras.Input((8, 8, 3)), *parts, layers.RandomRotation(0.1)])
    model.compile("adam", "mse", jit_compile=False)
    with pytest.raises(EditRefused, match="RandomRotation"):
        StepSettings(model, (LayersInInput(layer_names=("scale",)), JitCompile()))


def test_a_validation_is_measured_with_them():
    model, edit = KINDS["what draws nothing"]()
    runner = FitRunner(
        StepSettings(model, (edit,)), Feed.from_arguments({"x": reviews()}), Snapshot(model), 4.0
    )
    runner.is_validation = True
    assert runner.block(0.01).steps > 0


def scaled(*first):
    return keras.Sequential([keras.Input((6,)), *first, layers.Dense(2)])


def test_adapted_layers_learn_nothing():
    normal = layers.Normalization(name="normal")
    normal.adapt(np.random.default_rng(0).normal(size=(9, 6)))
    assert names(scaled(normal, layers.GaussianNoise(0.1, name="noise"))) == ("normal", "noise")


class Counting(layers.Layer):
    def build(self, shape):
        self.seen = self.add_weight(shape=(), initializer="zeros", trainable=False)

    def call(self, x):
        self.seen.assign_add(1.0)
        return x * 2.0


class OwnStep(keras.Model):
    def train_step(self, data):
        return super().train_step(data)


def own_step():
    x = keras.Input((6,))
    return OwnStep(x, layers.Dense(2)(layers.Rescaling(2.0)(x)))


def two_users():
    x = keras.Input((6,))
    twice = layers.Rescaling(2.0)(x)
    return keras.Model(x, layers.Dense(2)(layers.Concatenate()([x, twice])))


def two_inputs():
    x, y = keras.Input((6,)), keras.Input((6,))
    return keras.Model([x, y], layers.Dense(2)(layers.Add()([x, y])))


def only_scaled():
    x = keras.Input((6,))
    return keras.Model(x, layers.Rescaling(2.0)(x))


@pytest.mark.parametrize(
    "model",
    [
        lambda: scaled(layers.Dense(3)),
        lambda: scaled(layers.BatchNormalization()),
        lambda: scaled(Counting()),
        lambda: keras.Sequential(
            [keras.Input((4, 6)), layers.Masking(), layers.LSTM(3), layers.Dense(2)]
        ),
        lambda: scaled(layers.ActivityRegularization(0.1)),
        own_step,
        two_users,
        two_inputs,
        only_scaled,
    ],
)
def test_these_begin_with_nothing_that_may_leave_the_step(model):
    assert names(model()) == ()


def test_layers_behind_are_found_up_to_the_first_that_learns():
    model = scaled(
        layers.Rescaling(2.0, name="a"), layers.Reshape((3, 2), name="b"), layers.Flatten()
    )
    assert names(model)[:2] == ("a", "b")


def test_another_model_is_refused():
    model, edit = KINDS["what draws nothing"]()
    with pytest.raises(EditRefused, match="starts with count"):
        StepSettings(model, (LayersInInput(layer_names=("other",)),))
    with pytest.raises(EditRefused, match="trainable layer"):
        LayersInPipeline(scaled(), edit)


@pytest.mark.parametrize(
    "given",
    [
        {"x": reviews(), "class_weight": {0: 1.0, 1: 2.0}},
        {"x": reviews().map(lambda text, label: text)},
        {"x": reviews().map(lambda text, label: ({"text": text}, label))},
    ],
)
def test_other_data_is_refused(given):
    model, edit = KINDS["what draws nothing"]()
    with pytest.raises(EditRefused):
        StepSettings(model, (edit,)).training_feed(Feed.from_arguments(given))


class Warming(layers.Layer):
    """Goes by a variable that some callback sets, and that Keras knows nothing of."""

    def __init__(self, strength):
        super().__init__(name="warming")
        self.read = lambda: strength

    def call(self, x):
        return x * self.read()


class Looking(layers.Layer):
    def call(self, x):
        return tf.ensure_shape(tf.numpy_function(lambda y: y * 2, [x], tf.float32), x.shape)


@pytest.mark.parametrize(
    ("layer", "told"),
    [(lambda: Warming(tf.Variable(2.0)), "read"), (lambda: Looking(name="look"), "run Python")],
)
def test_layers_that_go_by_more_than_the_batch_stay_in_the_step(layer, told):
    model = scaled(layer())
    model.compile("sgd", "mse")
    rows = np.ones((8, 6), "float32")
    data = tf.data.Dataset.from_tensor_slices((rows, rows[:, :2])).batch(4)
    with pytest.raises(EditRefused, match=told):
        StepSettings(model, (edit_of(model),)).training_feed(Feed.from_arguments({"x": data}))


def test_an_error_in_a_layer_is_the_same():
    class Strict(layers.Layer):
        def call(self, texts):
            tf.debugging.assert_none_equal(texts, "q", message="no such review")
            return texts

    texts = [*TEXTS[:9], "q", *TEXTS[9:12]]
    data = tf.data.Dataset.from_tensor_slices((texts, LABELS[: len(texts)])).batch(4)
    seen = []
    for planned in (False, True):
        model, edit = moved(Strict(), counting())
        step = PlannedStep(model, (edit,) if planned else ())
        with pytest.raises(tf.errors.InvalidArgumentError, match="no such review"), step.active():
            model.fit(step.training_x({"x": data}), verbose=0)
        seen.append(int(model.optimizer.iterations))
    assert seen[0] == seen[1]


def test_a_second_model_begins_with_layers_of_other_names() -> None:
    def made() -> keras.Model:
        scaled = [keras.Input((3,)), keras.layers.Rescaling(0.5), keras.layers.Dense(2)]
        model = keras.Sequential(scaled)
        model.compile("sgd", "mse")
        return model

    edit = LayersInInput(
        layer_names=tuple(layer.name for layer in find_preprocessing_layers(made()))
    )
    second = made()
    assert LayersInPipeline(second, edit).layers == [second.layers[0]]
