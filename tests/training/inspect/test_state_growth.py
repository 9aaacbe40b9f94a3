"""A variable of open shape that a model's own step makes longer and longer."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from uncork.training.input.feed import Feed
from uncork.training.inspect.state_growth import measure_state_growth
from uncork.training.run.fit_runner import FitRunner
from uncork.training.run.step_settings import StepSettings
from uncork.training.state.snapshot import Snapshot

WIDE = 512


class Keeping(keras.Model):
    """Keeps what it computes of every batch, or of the last one alone."""

    def __init__(self, *, all_of_it: bool) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(WIDE)
        self.all_of_it = all_of_it
        self.bank = tf.Variable(tf.zeros((0, WIDE)), shape=(None, WIDE), trainable=False)

    def call(self, rows: Any) -> Any:
        return self.dense(rows)

    def train_step(self, data: Any) -> Any:
        rows, _, _ = keras.utils.unpack_x_y_sample_weight(data)
        codes = self(rows)
        self.bank.assign(tf.concat([self.bank, codes], 0) if self.all_of_it else codes)
        return {"loss": tf.reduce_mean(codes)}


def runner(model: Any) -> FitRunner:
    batch = (tf.ones((256, 8)), tf.ones((256, WIDE)))
    return FitRunner(
        StepSettings(model), Feed(None).with_resident_batches([batch]), Snapshot(model), 256.0
    )


@pytest.mark.parametrize("all_of_it", [True, False], ids=["grows", "stays"])
def test_what_grows_is_told_by_name(all_of_it: bool) -> None:
    model = Keeping(all_of_it=all_of_it)
    model.build((None, 8))
    model.compile("sgd", "mse")
    running = runner(model)
    found = measure_state_growth(running, model, 1.0)
    running.snapshot.restore()
    assert model.bank.shape.as_list() == [None, WIDE]
    assert int(tf.shape(model.bank)[0]) == 0
    if not all_of_it:
        assert found is None
        return
    assert found is not None
    assert found.name == "bank"
    assert found.bytes_per_step == 256 * WIDE * 4
    assert found.added_s_per_step > 0
    assert found.first_step_s > 0


def test_a_model_without_such_a_variable_is_not_even_run() -> None:
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.counted = tf.Variable(0.0)
    before = [np.array(w) for w in model.get_weights()]
    assert measure_state_growth(None, model, 1.0) is None  # type: ignore[arg-type]
    assert all(np.array_equal(a, b) for a, b in zip(before, model.get_weights(), strict=True))
