"""Batches of different lengths under XLA take long the first time; a slow start is told apart."""

from __future__ import annotations

import time

import keras
import pytest
import tensorflow as tf

from uncork.training.input.feed import Feed
from uncork.training.run.fit_runner import FitRunner
from uncork.training.run.recorded_batches import measure_recorded_batches, record_batches
from uncork.training.run.step_settings import StepSettings
from uncork.training.state.snapshot import Snapshot

SIZES = (3, 5, 7, 9)


def made_model():
    model = keras.Sequential(
        [keras.Input((None, 2)), keras.layers.Dense(4), keras.layers.GlobalAveragePooling1D()]
    )
    model.compile("sgd", "mse", jit_compile=True)
    return model


def batches(sizes=SIZES):
    lengths = tf.data.Dataset.from_tensor_slices(list(sizes))
    return lengths.map(lambda size: (tf.ones((2, size, 2)), tf.zeros((2, 4))))


def test_new_lengths_are_compiled_and_known_ones_are_not():
    model = made_model()
    kept, _ = record_batches(Feed(x=batches()), model, seconds=5.0)
    assert [batch[0].shape[1] for batch in kept] == list(SIZES)
    feed = Feed(x=batches()).with_resident_batches(kept)
    runner = FitRunner(StepSettings(model), feed, Snapshot(model), 2.0)
    found = measure_recorded_batches(runner, kept, seconds=0.0, start_s=0.25)
    assert found is not None
    assert found.batch_count == len(SIZES)
    assert found.new_step_s > 3 * found.known_step_s
    assert found.start_s == 0.25


def test_a_start_that_fills_something_is_told_apart():
    def slow_first():
        time.sleep(0.4)
        for _ in range(6):
            yield tf.ones((2, 3, 2)), tf.zeros((2, 4))

    spec = (tf.TensorSpec((2, 3, 2)), tf.TensorSpec((2, 4)))
    feed = Feed(x=tf.data.Dataset.from_generator(slow_first, output_signature=spec))
    kept, start_s = record_batches(feed, made_model(), seconds=5.0)
    assert len(kept) == 6
    assert start_s > 0.3


@pytest.mark.parametrize("count", [1, 2])
def test_too_few_batches_tell_nothing(count):
    model = made_model()
    kept, _ = record_batches(Feed(x=batches(SIZES[:count])), model, seconds=5.0)
    assert measure_recorded_batches(None, kept, seconds=0.0) is None
