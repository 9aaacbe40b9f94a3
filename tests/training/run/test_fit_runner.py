"""Blocks of steps over data of every form, counted to the last short batch."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from training.models import (
    BATCH,
    N,
    OwnStep,
    Pages,
    Subclassed,
    X,
    Y,
    classifier,
    dataset,
    mlp,
    two_outputs,
)
from uncork.core.base.errors import NothingToMeasure
from uncork.core.edits.step import StepsPerExecution
from uncork.training.input.feed import Feed, count_batch_samples
from uncork.training.run.fit_runner import FitRunner
from uncork.training.run.replay import BatchRecording
from uncork.training.run.step_settings import StepSettings
from uncork.training.state.model_build import build_model
from uncork.training.state.snapshot import Snapshot, read_weights

STEPS = 6  # of 22 samples in batches of 4
LABELS = np.arange(N) % 3


def compiled(model):
    model.compile("sgd", "mse")
    return model


FEEDS = {
    "arrays": (mlp, {"x": X, "y": Y, "batch_size": BATCH}, STEPS),
    "arrays in order": (mlp, {"x": X, "y": Y, "batch_size": BATCH, "shuffle": False}, STEPS),
    "tf.data": (mlp, {"x": dataset()}, STEPS),
    "tf.data, some steps": (mlp, {"x": dataset().repeat(), "steps_per_epoch": 4}, 4),
    "unknown length": (mlp, {"x": dataset().filter(lambda x, y: True)}, STEPS),
    "pydataset": (mlp, {"x": Pages(), "shuffle": False}, STEPS),
    "sample weights": (
        mlp,
        {"x": X, "y": Y, "batch_size": BATCH, "sample_weight": np.ones(N)},
        STEPS,
    ),
    "class weights": (
        classifier,
        {"x": X, "y": LABELS, "batch_size": BATCH, "class_weight": {0: 1.0, 1: 2.0, 2: 3.0}},
        STEPS,
    ),
    "validation split": (mlp, {"x": X, "y": Y, "batch_size": BATCH, "validation_split": 0.5}, 3),
    "dictionaries, two outputs": (
        two_outputs,
        {"x": {"a": X, "b": X}, "y": {"one": Y, "two": Y}, "batch_size": BATCH},
        STEPS,
    ),
    "dictionaries from tf.data": (
        two_outputs,
        {
            "x": tf.data.Dataset.from_tensor_slices(({"a": X, "b": X}, {"one": Y, "two": Y})).batch(
                BATCH
            )
        },
        STEPS,
    ),
    "subclassed": (lambda: compiled(Subclassed()), {"x": dataset()}, STEPS),
    "own train_step": (lambda: compiled(OwnStep()), {"x": dataset()}, STEPS),
}


def runner(case: str, edits=()) -> FitRunner:
    make, arguments, _ = FEEDS[case]
    model, feed = make(), Feed.from_arguments(arguments)
    build_model(model, next(iter(feed.batches_dataset(model))))
    return FitRunner(StepSettings(model, edits), feed, Snapshot(model), float(BATCH))


def epoch(made: FitRunner) -> list[int]:
    """Steps of each execution of one epoch."""
    with made._executing(once=True) as executions:
        return list(executions)


@pytest.mark.every(8, first=4)
@pytest.mark.parametrize("case", FEEDS)
def test_an_epoch_has_its_steps(case):
    made = runner(case)
    before = read_weights(made.settings.model)
    assert sum(epoch(made)) == FEEDS[case][2]
    assert int(made.settings.model.optimizer.iterations) in (FEEDS[case][2], FEEDS[case][2] + 1)
    after = read_weights(made.settings.model)
    assert any((a != b).any() for a, b in zip(after, before, strict=True))


@pytest.mark.every(6)
@pytest.mark.parametrize("case", ["arrays", "tf.data"])
@pytest.mark.parametrize("group", [1, 2, 4, 6, 50])
def test_an_execution_is_never_counted_beyond_the_epoch(case, group):
    made = runner(case, (StepsPerExecution(steps=group),) if group > 1 else ())
    total = FEEDS[case][2]
    found = epoch(made)
    assert sum(found) == total
    assert found == [min(group, total - i) for i in range(0, total, group)]
    assert int(made.settings.model.optimizer.iterations) == total


@pytest.mark.every(2)
@pytest.mark.parametrize("group", [2, 3, 4])
def test_steps_of_an_endless_dataset_are_counted(group):
    made = runner("tf.data, some steps", (StepsPerExecution(steps=group),))
    executions = -(-4 // group)  # Keras always runs whole ones
    assert epoch(made) == [group] * executions
    assert int(made.settings.model.optimizer.iterations) == group * executions


def test_it_trains_as_fit_does():
    made = runner("arrays in order")
    model = made.settings.model
    epoch(made)
    ours = read_weights(model)
    made.snapshot.restore()
    model.fit(**FEEDS["arrays in order"][1], verbose=0)
    for a, b in zip(ours, read_weights(model), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.every(2)
@pytest.mark.parametrize("case", ["tf.data, some steps", "tf.data", "unknown length", "ends"])
def test_epochs_follow_each_other_as_in_fit(case):
    """An endless pipeline is read on; one that ends with an epoch gives the next one nothing."""
    given = {
        "ends": {"x": dataset().filter(lambda x, y: True), "steps_per_epoch": STEPS},
        **{name: arguments for name, (_, arguments, _) in FEEDS.items()},
    }[case]
    model, feed = mlp(), Feed.from_arguments(given)
    build_model(model, next(iter(feed.batches_dataset(model))))
    made = FitRunner(StepSettings(model), feed, Snapshot(model), float(BATCH))
    with made._executing(whole=True) as epochs:
        ran = [next(epochs) for _ in range(3)]
    ours = read_weights(model)
    made.snapshot.restore()
    model.fit(**given, epochs=3, verbose=0)
    for a, b in zip(ours, read_weights(model), strict=True):
        np.testing.assert_array_equal(a, b)
    steps = FEEDS[case][2] if case in FEEDS else STEPS
    assert ran == [steps, 0 if case == "ends" else steps, steps]


def test_an_endless_pipeline_begins_once_for_each_block():
    begun = []

    def rows():
        begun.append(1)
        while True:
            yield X[0], Y[0]

    spec = (tf.TensorSpec(X.shape[1:], tf.float32), tf.TensorSpec(Y.shape[1:], tf.float32))
    data = tf.data.Dataset.from_generator(rows, output_signature=spec).batch(BATCH)
    model, feed = mlp(), Feed.from_arguments({"x": data, "steps_per_epoch": 4})
    build_model(model, (X[:BATCH], Y[:BATCH]))
    made = FitRunner(StepSettings(model), feed, Snapshot(model), float(BATCH))
    with made._executing(whole=True) as epochs:
        before = len(begun)
        assert [next(epochs) for _ in range(3)] == [4, 4, 4]
    assert len(begun) - before <= 1
    made._epoch_s = 0.0
    assert made.block(0.0).steps == 1, "no epoch is timed whole, with a start that there is none of"


def test_blocks_go_on_over_the_end_of_an_epoch():
    made = runner("arrays")
    assert made.prime() > 0
    block = made.block(0.05)
    assert block.steps >= 1
    assert block.samples == block.steps * BATCH
    assert made.first_epoch(60.0) > 0


def test_an_epoch_beyond_the_limit_is_not_known():
    assert runner("tf.data").first_epoch(0.0) is None


def test_every_block_starts_from_the_same_weights():
    made = runner("arrays in order")
    results = []
    for _ in range(2):
        epoch(made)
        results.append(read_weights(made.settings.model))
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.filterwarnings("ignore:Your input ran out of data")
def test_data_without_a_batch_is_called_so():
    made = runner("tf.data")
    made.feed = Feed.from_arguments({"x": dataset().take(0)})
    with pytest.raises(NothingToMeasure, match="no batch"):
        made.prime()


@pytest.mark.every(8)
@pytest.mark.parametrize("case", FEEDS)
def test_a_resident_batch_is_what_the_step_receives(case):
    made = runner(case)
    model, feed = made.settings.model, made.feed
    batch = next(iter(feed.batches_dataset(model)))
    assert count_batch_samples(batch) == BATCH
    resident = FitRunner(
        made.settings, feed.with_resident_batches([batch]), made.snapshot, float(BATCH)
    )
    assert resident.block(0.0).steps >= 1


@pytest.mark.parametrize("case", ["arrays", "class weights", "dictionaries, two outputs"])
def test_a_recording_plays_in_any_order(case):
    made = runner(case)
    model = made.settings.model
    recording = BatchRecording.from_feed(made.feed, model, max_batches=64, max_bytes=1 << 20)
    assert len(recording.batches) == STEPS
    order = [5, 0, 0, 3]
    played = list(recording.feed(order).x)
    assert len(played) == len(order)
    for index, batch in zip(order, played, strict=True):
        for ours, held in zip(
            tf.nest.flatten(batch), tf.nest.flatten(recording.batches[index]), strict=True
        ):
            np.testing.assert_array_equal(ours, held)


@pytest.mark.parametrize(("most", "max_bytes", "held"), [(2, 1 << 20, 2), (64, 1, 1), (64, 300, 3)])
def test_a_recording_keeps_to_its_limits(most, max_bytes, held):
    made = runner("tf.data")
    recording = BatchRecording.from_feed(
        made.feed, made.settings.model, max_batches=most, max_bytes=max_bytes
    )
    assert len(recording.batches) == held


def test_short_epochs_are_timed_whole():
    made = runner("arrays")
    made.prime()
    blocks = []
    for _ in range(2):
        assert made._epoch_s < math.inf  # from the block before; here set by the test
        made._epoch_s = 0.01
        blocks.append(made.block(0.05))
    assert [block.steps % STEPS for block in blocks] == [0, 0]
    assert all(block.steps > 0 for block in blocks)
    made._epoch_s = 0.1
    assert made.block(0.0).steps == 1


def test_what_passes_between_epochs_is_told_apart_where_it_is_tensorflows():
    made = runner("arrays")
    made.prime()
    assert made.block(0.05).between_epochs_s is None
    made.may_wait_between_epochs = True
    made._epoch_s = 0.01  # set by the test: the next block times whole ones
    found = made.block(0.05)
    assert found.epoch_ends > 0
    assert 0 < found.between_epochs_s < found.wall_s


def test_endless_data_has_no_whole_epochs():
    made = runner("arrays")
    model, feed = made.settings.model, made.feed
    batch = next(iter(feed.batches_dataset(model)))
    resident = FitRunner(
        made.settings, feed.with_resident_batches([batch]), made.snapshot, float(BATCH)
    )
    resident.prime()
    assert resident.block(0.05).steps < 1 << 20
