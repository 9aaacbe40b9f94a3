from __future__ import annotations

import time

import keras
import pytest
import tensorflow as tf

from uncork.step import Snapshot, Validating

from .models import BATCH, N, X, Y, mlp


class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 3

    def __getitem__(self, index):
        return X[:4], Y[:4]


def rows():
    return tf.data.Dataset.from_tensor_slices((X, Y))


@pytest.mark.parametrize(
    ("arguments", "samples"),
    [
        ({"validation_data": (X, Y), "batch_size": BATCH}, 24),  # whole batches are reckoned with
        ({"validation_data": (X, Y), "validation_batch_size": 11}, 22),
        ({"validation_data": rows().batch(2)}, N),
        ({"validation_data": rows().repeat().batch(2), "validation_steps": 3}, 6),
        ({"x": X, "y": Y, "validation_split": 0.5, "batch_size": 11}, 11),
    ],
)
def test_a_pass_over_the_validation_data(arguments, samples):
    model = mlp()
    found = Validating.of(arguments)
    seconds, seen = found.timed(model, 1.0)
    assert seen == samples
    assert 0 < seconds < 30


def test_what_takes_too_long_is_reckoned():
    slow = rows().batch(2).map(lambda x, y: tf.py_function(_slowly, (x, y), (tf.float32,) * 2))
    data = slow.map(lambda x, y: (tf.ensure_shape(x, (None, 6)), tf.ensure_shape(y, (None, 2))))
    found = Validating.of({"validation_data": data})
    seconds, samples = found.timed(mlp(), 0.05)
    assert samples == N
    assert seconds > 0.1


def _slowly(x, y):
    time.sleep(0.02)
    return x, y


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"validation_data": None, "validation_split": 0.0},
        {"validation_data": Batches()},
        {"validation_data": (x for x in ())},
        {"validation_data": (X, Y), "validation_freq": [2, 5]},
    ],
)
def test_what_is_left_alone(arguments):
    assert Validating.of(arguments) is None


def test_without_a_length_there_is_no_time():
    assert Validating.of({"validation_data": rows().repeat().batch(2)}).timed(mlp(), 1.0) is None


def test_nothing_of_the_model_stays_changed():
    model = mlp(keras.layers.BatchNormalization(), keras.layers.Dropout(0.5))
    model.fit(X, Y, batch_size=BATCH, verbose=0)
    before = [v.numpy() for v in (*model.variables, *model.optimizer.variables)]
    function = model.test_function
    with Snapshot(model).restored():
        Validating.of({"validation_data": (X, Y)}).timed(model, 1.0)
    after = [v.numpy() for v in (*model.variables, *model.optimizer.variables)]
    assert all((a == b).all() for a, b in zip(after, before, strict=True))
    assert model.test_function is function
