from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from uncork.training.inspect.one_hot import measure_one_hot
from uncork.training.tracing.step_info import has_categorical_loss

EYE = np.eye(2_000, dtype="float32")
LABELS = EYE[np.arange(4_000) % 7]


@pytest.mark.every(2)
@pytest.mark.parametrize("kind", [np.asarray, tf.constant])
@pytest.mark.parametrize("shape", [(4_000, 2_000), (40, 100, 2_000)])
def test_rows_of_a_single_one_are_seen(kind, shape):
    found = measure_one_hot([kind(LABELS.reshape(shape))], are_arrays=True)
    assert (found.class_count, found.batch_bytes) == (2_000, LABELS.nbytes)
    assert found.creation_s > 0
    assert found.creation_cpu_s > 0
    assert found.loss_s >= 0


def test_labels_that_are_tensors_already_are_not_filled():
    found = measure_one_hot([LABELS], are_arrays=False)
    assert (found.creation_s, found.creation_cpu_s) == (0.0, 0.0)


@pytest.mark.deep
def test_large_ones_are_timed_in_part():
    every = measure_one_hot([np.tile(LABELS, (4, 1))], are_arrays=True)
    assert every.batch_bytes == 4 * LABELS.nbytes > 64 << 20
    assert every.creation_s > 0


def two_of_them():
    labels = LABELS.copy()
    labels[3, 1_500] = 1
    return labels


@pytest.mark.parametrize(
    "labels",
    [
        EYE[:10],  # small
        LABELS * 0.5,  # no ones
        two_of_them(),
        np.zeros_like(LABELS),
        LABELS[0].repeat(4_000),  # no rows
        np.array(["a"] * 1_000),
        tf.sparse.from_dense(LABELS),
    ],
)
def test_everything_else_is_none(labels):
    assert measure_one_hot([labels], are_arrays=False) is None


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        ("categorical_crossentropy", True),
        (tf.keras.losses.CategoricalCrossentropy(from_logits=True), True),
        (tf.keras.losses.categorical_crossentropy, True),
        (tf.keras.losses.CategoricalCrossentropy(label_smoothing=0.1), False),
        ("sparse_categorical_crossentropy", False),
        ("mse", False),
        ({"a": "categorical_crossentropy"}, False),
    ],
)
def test_the_loss_of_a_model_is_known(loss, expected):
    model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(3)])
    assert not has_categorical_loss(model)
    model.compile("sgd", loss)
    assert has_categorical_loss(model) is expected


@pytest.mark.parametrize("sparse", [False, True])
def test_the_loss_of_a_function_is_seen_in_its_ops(sparse):
    of = tf.keras.losses
    kind = of.sparse_categorical_crossentropy if sparse else of.categorical_crossentropy

    @tf.function
    def inner(labels, logits):
        return kind(labels, logits, from_logits=True)

    @tf.function
    def step(labels, logits):
        return tf.reduce_mean(inner(labels, logits))

    step(tf.constant([1, 0]) if sparse else tf.eye(2), tf.zeros([2, 2]))
    assert has_categorical_loss(step) is not sparse
    assert has_categorical_loss(print) is False
