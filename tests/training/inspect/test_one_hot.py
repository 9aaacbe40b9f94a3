from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from uncork.training.inspect.one_hot import one_hot_of
from uncork.training.tracing.step_info import is_categorical

EYE = np.eye(2_000, dtype="float32")
LABELS = EYE[np.arange(4_000) % 7]


@pytest.mark.parametrize("kind", [np.asarray, tf.constant])
@pytest.mark.parametrize("shape", [(4_000, 2_000), (40, 100, 2_000)])
def test_rows_of_a_single_one_are_seen(kind, shape):
    found = one_hot_of([kind(LABELS.reshape(shape))], handed_over=True)
    assert (found.classes, found.bytes) == (2_000, LABELS.nbytes)
    assert found.made_s > 0
    assert found.made_cpu_s > 0
    assert found.loss_s >= 0


def test_labels_that_are_tensors_already_are_not_filled():
    found = one_hot_of([LABELS], handed_over=False)
    assert (found.made_s, found.made_cpu_s) == (0.0, 0.0)


def test_large_ones_are_timed_in_part():
    every = one_hot_of([np.tile(LABELS, (4, 1))], handed_over=True)
    assert every.bytes == 4 * LABELS.nbytes > 64 << 20
    assert every.made_s > 0


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
    assert one_hot_of([labels], handed_over=False) is None


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
    assert not is_categorical(model)
    model.compile("sgd", loss)
    assert is_categorical(model) is expected


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
    assert is_categorical(step) is not sparse
    assert is_categorical(print) is False
