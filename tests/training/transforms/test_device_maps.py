"""The last map of a pipeline done in the training step: the same training, of narrower batches."""

from __future__ import annotations

from contextlib import nullcontext

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from uncork.core.base.errors import EditRefused
from uncork.core.edits.step import (
    FlatUpdates,
    JitCompile,
    LayersInInput,
    MapOnDevice,
    StepsPerExecution,
)
from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.transforms.trailing_maps import find_trailing_maps
from uncork.training.input.feed import Feed
from uncork.training.run.planned_step import PlannedStep
from uncork.training.run.replay import BatchRecording, run_replay
from uncork.training.run.step_settings import StepSettings
from uncork.training.state.snapshot import Snapshot
from uncork.training.transforms.device_maps import MapInStep, UnmappedBatch

PIXELS = np.random.default_rng(3).integers(0, 256, (48, 6), "uint8")
LABELS = np.arange(48, dtype="float32").reshape(-1, 1) % 3
ORDER = [0, 1, 2, 3, 4, 5, 2, 1, 0, 0]


class Counting(keras.Sequential):
    """Has a training step of its own, which looks at what it is given."""

    def train_step(self, data):
        x, _ = data
        assert x.dtype == tf.float32
        return super().train_step(data)


def made(kind=keras.Sequential, *, drops=True, **how):
    keras.utils.set_random_seed(5)
    drop = [layers.Dropout(0.3)] if drops else []
    model = kind([keras.Input((6,)), layers.Dense(8, "relu"), *drop, layers.Dense(1)])
    model.compile("adam", "mse", metrics=["mae"], **how)
    model.optimizer.build(model.trainable_variables)
    return model


def data(divided_by=255.0):
    held = tf.fill([200], divided_by)  # too large to be a constant of the function's
    pixels = tf.data.Dataset.from_tensor_slices((PIXELS, LABELS)).shuffle(48, seed=1)
    return pixels.batch(8).map(lambda x, y: (tf.cast(x, tf.float32) / held[:6], y)).prefetch(2)


def edit_of(dataset):
    return MapOnDevice(expected_digest=find_trailing_maps(read_pipeline(dataset))[0].digest)


@pytest.mark.every(4)
@pytest.mark.parametrize("kind", [keras.Sequential, Counting])
@pytest.mark.parametrize("others", [(), (StepsPerExecution(steps=3), FlatUpdates())])
def test_it_is_the_same_training_bit_for_bit(kind, others):
    model, dataset = made(kind), data()
    settings = StepSettings(model, (edit_of(dataset), *others))
    snapshot = Snapshot(model)
    pairs = settings.batch_pairs(Feed.from_arguments({"x": dataset}))
    recording = BatchRecording.from_pairs(pairs, max_batches=6, max_bytes=1 << 20)
    assert all(isinstance(batch, UnmappedBatch) for batch in recording.variant_batches)
    assert recording.variant_batches[0].batch[0].dtype == tf.uint8
    plain = run_replay(StepSettings(model), snapshot, recording.feed(ORDER))
    moved = run_replay(settings, snapshot, recording.feed(ORDER, for_variant=True))
    assert moved.is_equal_to(plain)
    assert others or moved.losses == plain.losses


def test_one_that_makes_something_else_is_not_the_same():
    """The recording holds what the pipeline made: the step is not compared with itself."""
    model, dataset = made(), data()
    settings = StepSettings(model, (edit_of(dataset),))
    pairs = settings.batch_pairs(Feed.from_arguments({"x": dataset}))
    recording = BatchRecording.from_pairs(pairs, max_batches=6, max_bytes=1 << 20)
    settings.training_feed(
        Feed.from_arguments({"x": data(254.0)})
    )  # a map of the same ops that holds another number
    snapshot = Snapshot(model)
    plain = run_replay(StepSettings(model), snapshot, recording.feed(ORDER))
    moved = run_replay(settings, snapshot, recording.feed(ORDER, for_variant=True))
    assert not moved.is_equal_to(plain)


def test_xla_compiles_it_with_the_step():
    model, dataset = made(drops=False), data()
    settings = StepSettings(model, (edit_of(dataset), JitCompile()))
    snapshot = Snapshot(model)
    pairs = settings.batch_pairs(Feed.from_arguments({"x": dataset}))
    recording = BatchRecording.from_pairs(pairs, max_batches=6, max_bytes=1 << 20)
    plain = run_replay(StepSettings(model), snapshot, recording.feed(ORDER))
    moved = run_replay(settings, snapshot, recording.feed(ORDER, for_variant=True))
    assert moved.distance(plain) < 1e-3


@pytest.mark.every(2)
@pytest.mark.parametrize("divisors", [(255.0,), (255.0, 100.0, 100.0)])
def test_fit_trains_and_validates_the_same_model(divisors):
    """Another dataset for each call, whose function holds a number of its own."""

    def trained(*, planned):
        model = made()
        step = PlannedStep(model, (edit_of(data()),))
        told = []
        for divisor in divisors:
            given = {"x": data(divisor), "validation_data": data(), "epochs": 2, "verbose": 0}
            if planned:
                x = step.training_x(given)
                assert x.element_spec.batch[0].dtype == tf.uint8
                with step.active():
                    told.append(model.fit(**{**given, "x": x}).history)
            else:
                told.append(model.fit(**given).history)
        return told, [w.numpy() for w in model.weights]

    plain, planned = trained(planned=False), trained(planned=True)
    assert planned[0] == plain[0]
    assert all(np.array_equal(a, b) for a, b in zip(planned[1], plain[1], strict=True))


def test_the_model_is_left_as_it_was():
    model, dataset = made(), data()
    model.fit(dataset, verbose=0)  # Keras has attributes of its own from there on
    before = set(vars(model))
    step = PlannedStep(model, (edit_of(dataset),))
    x = step.training_x({"x": dataset})
    with step.active():
        model.fit(x, verbose=0)
    assert set(vars(model)) == before
    model.fit(dataset, verbose=0)  # of batches that are made, as ever


def test_batches_from_memory_are_trained_on_as_they_are():
    model, dataset = made(), data()
    held = Feed.from_arguments({"x": dataset}).with_resident_batches(list(dataset.take(2)))
    assert MapInStep(model, edit_of(dataset)).training_feed(held) is held


@pytest.mark.parametrize(
    ("arguments", "received"),
    [
        ({"x": data().shuffle(2)}, "ends with no such map"),
        ({"x": data().map(lambda x, y: (x * 2, y))}, "ends with"),
        ({"x": data(), "class_weight": {0: 2.0}}, "class_weight is set"),
    ],
)
def test_other_data_is_refused(arguments, received):
    with pytest.raises(EditRefused, match=received):
        PlannedStep(made(), (edit_of(data()),)).training_x(arguments)


def test_other_steps_are_refused():
    edit = edit_of(data())
    with pytest.raises(EditRefused, match="eagerly"):
        StepSettings(made(run_eagerly=True), (edit,))
    scale = layers.Rescaling(0.5, name="scale")
    scaling = keras.Sequential([keras.Input((6,)), scale, layers.Dense(1)])
    scaling.compile("sgd", "mse")
    with pytest.raises(EditRefused, match="first layers"):
        StepSettings(scaling, (edit, LayersInInput(layer_names=("scale",))))


@pytest.mark.parametrize("edit", [StepsPerExecution(steps=2), LayersInInput(layer_names=("half",))])
def test_a_part_that_is_split_off_is_split_off_once(edit):
    """By Keras, whatever of the step the plan changes."""

    def trained(*, planned):
        keras.utils.set_random_seed(5)
        parts = [layers.Rescaling(0.5, name="half"), layers.Dense(1)]
        model = keras.Sequential([keras.Input((6,)), *parts])
        model.compile("sgd", "mse")
        given = {"x": PIXELS / 255.0, "y": LABELS, "batch_size": 4, "validation_split": 0.25}
        step = PlannedStep(model, (edit,))
        x = step.training_x(given) if planned else given["x"]
        with step.active() if planned else nullcontext():
            told = model.fit(**{**given, "x": x}, verbose=0, shuffle=False).history
        return told, [w.numpy() for w in model.weights]

    plain, planned = trained(planned=False), trained(planned=True)
    assert len(plain[0]["val_loss"]) == 1
    assert planned[0] == plain[0]
    assert all(np.array_equal(a, b) for a, b in zip(planned[1], plain[1], strict=True))
