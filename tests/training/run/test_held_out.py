from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from uncork.pipeline.analysis.passes import samples_before_repeat
from uncork.pipeline.ir.tree import read_pipeline
from uncork.training.input.feed import Feed
from uncork.training.run.held_out import HeldOutSplit
from uncork.training.run.step_settings import StepSettings
from uncork.training.state.snapshot import Snapshot, read_weights

DRAW = np.random.default_rng(0)
ROWS = DRAW.normal(size=(1000, 6)).astype("float32")
SUMS = ROWS.sum(1, keepdims=True)


@pytest.fixture
def model() -> keras.Model:
    keras.utils.set_random_seed(1)
    made = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8), keras.layers.Dense(1)])
    made.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"])
    return made


def held_out(model, x=ROWS, y=SUMS, most=1000, max_bytes=1 << 20) -> HeldOutSplit | None:
    feed = Feed(x=x, y=y, batch_size=8, shuffle=False)
    return HeldOutSplit.from_feed(feed, model, max_samples=most, max_bytes=max_bytes)


def test_a_fifth_is_laid_aside(model):
    found = held_out(model)
    assert found.training_sample_count == 800
    assert np.array_equal(found.training_samples[0], ROWS[:800])
    assert np.array_equal(found.held_out_samples[1], SUMS[800:])


def test_no_more_is_taken_than_was_asked_for(model):
    assert held_out(model, most=100).training_sample_count == pytest.approx(80, abs=8)
    assert held_out(model, max_bytes=8000).training_sample_count == pytest.approx(
        0.8 * 8000 / 28, abs=8
    )


@pytest.mark.parametrize(
    "data",
    [
        tf.data.Dataset.from_tensor_slices((ROWS[:40], SUMS[:40])).batch(8),
        tf.data.Dataset.range(200).map(lambda i: (tf.ones([6 + i % 2]), [1.0])).batch(1),
        tf.data.Dataset.range(200).map(lambda i: (tf.ones([i % 3]), [1.0])).ragged_batch(8),
    ],
    ids=["few", "of several lengths", "ragged"],
)
def test_what_cannot_be_put_together_is_left(model, data):
    assert held_out(model, data, None) is None


def test_the_loss_is_that_of_evaluate(model):
    found = held_out(model)
    assert found.held_out_loss(model) == pytest.approx(
        model.evaluate(ROWS[800:], SUMS[800:], batch_size=256, verbose=0)[0], rel=1e-5
    )


def test_a_curve_falls_from_the_snapshot_on_and_the_same_seed_gives_it_again(model):
    found, settings, snapshot = held_out(model), StepSettings(model), Snapshot(model)

    def curve(seed):
        of = {"batch_size": 8, "steps": 100, "points": 4}
        return found.loss_curve(settings, snapshot, seed=seed, **of)

    first, again, other = curve(1), curve(1), curve(2)
    assert [samples for samples, _ in first] == [0, 200, 400, 600, 800]
    assert first[-1][1] < 0.5 * first[0][1]
    assert first == again
    assert first[0] == other[0]
    assert first != other


def test_only_the_weights_are_left_to_give_back(model):
    settings, snapshot = StepSettings(model), Snapshot(model)
    before = read_weights(model)
    held_out(model).loss_curve(settings, snapshot, seed=0, batch_size=8, steps=8, points=2)
    snapshot.restore()
    assert all(np.array_equal(a, b) for a, b in zip(before, read_weights(model), strict=True))
    assert model.train_function is None
    assert model.test_function is None


def test_no_sample_comes_twice():
    """Where a pipeline repeats itself, only what comes before its first repetition is taken."""
    rows = tf.data.Dataset.range(100)
    once = {
        100: rows.shuffle(100).repeat(3).batch(8),
        96: rows.batch(8, drop_remainder=True).repeat(),
        0: rows.repeat().shuffle(100).batch(8),
        -1: rows.shuffle(100).batch(8),
    }
    for samples, data in once.items():
        found = samples_before_repeat(read_pipeline(data), 8)
        assert found == (None if samples < 0 else samples)
    both = tf.data.Dataset.sample_from_datasets([rows.repeat(), rows.repeat()]).batch(8)
    assert samples_before_repeat(read_pipeline(both), 8) == 0
    assert (
        samples_before_repeat(read_pipeline(rows.filter(lambda x: x > 1).repeat().batch(8)), 8) == 0
    )
