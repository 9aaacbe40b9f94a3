"""Arrays that ``fit`` puts in one order for ever: a note, and no seed of the script is used up."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from uncork.compat.random_state import random_state, set_random_state
from uncork.engine.fit.fit_subject import FitSubject
from uncork.training.input.array_order import SAME_ORDER_MESSAGE

ROWS = np.arange(40, dtype="float32").reshape(40, 1)


@pytest.fixture(autouse=True)
def state():
    before = random_state()
    yield
    set_random_state(before)


@pytest.mark.parametrize("seed", [3, None])
def test_it_is_noted_where_a_global_seed_is_set(tmp_path, seed):
    tf.random.set_seed(seed)
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    before = random_state()
    subject = FitSubject(model, {"x": ROWS, "y": ROWS, "epochs": 2}, 0, "train.py:9", str(tmp_path))
    subject.restore()
    assert (SAME_ORDER_MESSAGE in subject.notes) is (seed is not None)
    assert random_state()[2] == before[2]
