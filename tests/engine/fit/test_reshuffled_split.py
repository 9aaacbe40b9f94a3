"""A ``fit`` whose validation data leaks into its training: seen in what the script handed over."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from uncork.engine.fit.fit_subject import FitSubject

ROWS = np.arange(40, dtype="float32").reshape(40, 1)


def examples(*, anew=True):
    data = tf.data.Dataset.from_tensor_slices((ROWS, ROWS))
    return data.shuffle(40, reshuffle_each_iteration=anew)


def found(tmp_path, x, validation_data):
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    arguments = {"x": x, "epochs": 2, "validation_data": validation_data}
    subject = FitSubject(model, arguments, 0, "train.py:9", str(tmp_path))
    try:
        return subject.find_reshuffled_split()
    finally:
        subject.restore()


@pytest.mark.parametrize("anew", [True, False])
def test_a_split_is_judged_by_the_script_s_own_datasets(tmp_path, anew):
    rows = examples(anew=anew)
    leak = found(tmp_path, rows.skip(10).batch(5), rows.take(10).batch(5))
    assert (leak is not None) == anew
    assert leak is None or leak.split_methods == ("skip", "take")


def test_other_data_and_none_are_no_split(tmp_path):
    rows = examples().skip(10).batch(5)
    for validation in (None, (ROWS, ROWS), examples().take(10).batch(5)):
        assert found(tmp_path, rows, validation) is None
