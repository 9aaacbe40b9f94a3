"""Sequences that are filled up: the step is tried without most of the padding, and put back."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from uncork.capture.base.listener import StepCall
from uncork.engine.fit.fit_subject import FitSubject
from uncork.engine.loop.step_loop_subject import StepLoopSubject

LONGEST, MEAN = 40, 10


def filled(rows=64):
    words = np.zeros((rows, LONGEST), "int32")
    words[:, :MEAN] = 1 + np.arange(MEAN)
    return words, np.ones((rows, 1), "float32")


def reader(length):
    model = keras.Sequential(
        [
            keras.Input((length,), dtype="int32"),
            keras.layers.Embedding(50, 8),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(1),
        ]
    )
    model.compile("sgd", "mse")
    return model


def subject(model, tmp_path):
    words, labels = filled()
    data = tf.data.Dataset.from_tensor_slices((words, labels)).batch(16)
    return FitSubject(model, {"x": data, "epochs": 2}, 0, "train.py:9", str(tmp_path))


def test_a_step_for_any_length_is_tried_on_shorter_rows(tmp_path):
    model = reader(None)
    before = [v.numpy().copy() for v in model.variables]
    tried = subject(model, tmp_path)
    padding, shorter = tried.unpadded_runner()
    assert (padding.padded_length, padding.mean_length) == (LONGEST, MEAN)
    shorter.prime()
    assert shorter.block(0.05).steps > 0
    tried.restore()
    after = [v.numpy() for v in model.variables]
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


def test_a_model_made_for_one_length_keeps_it(tmp_path):
    assert subject(reader(LONGEST), tmp_path).unpadded_runner() is None


@pytest.mark.parametrize("declared", [None, LONGEST])
def test_the_step_of_a_loop_says_itself_whether_it_takes_shorter_rows(declared):
    @tf.function(input_signature=[tf.TensorSpec((None, declared), tf.int32)])
    def train_step(words):
        return tf.reduce_sum(words)

    words, _ = filled()
    call = StepCall(0, "train.py:9", (words,), {}, train_step)
    tried = StepLoopSubject(call, epochs=None)
    padding, shorter = tried.unpadded_runner()
    assert padding.mean_length == MEAN
    tried.use_batch(shorter._call)
    tried._again("repeatedly, another batch")
    assert (tried.rejection() is None) == (declared is None)
