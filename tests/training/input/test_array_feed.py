"""Arrays read through Keras's own pipeline, its last map in the thread that asks."""

from __future__ import annotations

from contextlib import nullcontext

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter

from uncork.core.base.errors import EditRefused
from uncork.pipeline.ir.tree import read_pipeline
from uncork.training.input.array_feed import array_feed_edits, read_arrays_in_one_thread
from uncork.training.input.feed import Feed

RNG = np.random.default_rng(5)
X, Y = RNG.normal(size=(70, 6)).astype("float32"), RNG.integers(0, 3, 70)
MADE = ArrayDataAdapter.get_tf_dataset

FEEDS = {
    "shuffled": {"x": X, "y": Y},
    "in order": {"x": X, "y": Y, "shuffle": False},
    "batches shuffled": {"x": X, "y": Y, "shuffle": "batch"},
    "whole batches": {"x": X[:64], "y": Y[:64], "batch_size": 16},
    "fewer than a batch": {"x": X[:5], "y": Y[:5]},
    "large batches": {"x": X, "y": Y, "batch_size": 64},
    "weights": {"x": X, "y": Y, "sample_weight": np.arange(70, dtype="float32")},
    "weights of classes": {"x": X, "y": Y, "class_weight": {0: 1.0, 1: 2.0, 2: 0.5}},
    "float64, which Keras casts": {"x": X.astype("float64"), "y": Y},
    "bytes": {"x": (X * 9).astype("uint8"), "y": Y},
    "several inputs": {"x": {"a": X, "b": X[:, :2]}, "y": (Y, X[:, 0])},
    "tensors": {"x": tf.constant(X), "y": tf.constant(Y)},
    "sparse": {"x": tf.sparse.from_dense(X), "y": Y},
    "one split off": {"x": X, "y": Y, "validation_split": 0.2},
    "some steps": {"x": X, "y": Y, "steps_per_epoch": 2},
}


def model():
    keras.utils.set_random_seed(11)
    made = keras.Sequential([keras.Input((6,)), keras.layers.Dropout(0.2), keras.layers.Dense(3)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    made.compile("adam", loss, metrics=["accuracy"])
    made.optimizer.build(made.trainable_variables)
    return made


def batches(feed):
    """Three epochs."""
    keras.utils.set_random_seed(3)
    dataset = feed.batches_dataset(model())
    keras.utils.set_random_seed(4)
    return [
        [
            [np.asarray(leaf) for leaf in tf.nest.flatten(batch, expand_composites=True)]
            for batch in dataset
        ]
        for _ in range(3)
    ]


@pytest.mark.every(4)
@pytest.mark.parametrize("case", FEEDS)
def test_the_batches_are_keras_s_own_to_the_last_bit(case):
    feed = Feed.from_arguments(FEEDS[case])
    ours, theirs = batches(feed.with_single_threaded_arrays()), batches(feed)
    assert [len(epoch) for epoch in ours] == [len(epoch) for epoch in theirs]
    for epoch, as_ever in zip(ours, theirs, strict=True):
        for batch, usual in zip(epoch, as_ever, strict=True):
            assert [leaf.dtype for leaf in batch] == [leaf.dtype for leaf in usual]
            assert all(np.array_equal(a, b) for a, b in zip(batch, usual, strict=True))


def test_it_is_keras_s_own_pipeline_with_one_map_elsewhere_and_no_autotuner():
    feed = Feed.from_arguments(FEEDS["shuffled"])
    pipeline = read_pipeline(feed.batches_dataset(model()))
    edited = read_pipeline(feed.with_single_threaded_arrays().batches_dataset(model()))
    kinds = [place.node.kind for place in pipeline.stage_locations]
    assert [place.node.kind for place in edited.stage_locations][: len(kinds)] == kinds
    maps = [p.node for p in edited.stage_locations if p.node.kind == "map"]
    assert [node.parallelism for node in maps] == [1, 1]
    assert edited.dataset.options().autotune.enabled is False


@pytest.mark.every(7)
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"shuffle": False},
        {"validation_split": 0.3},
        {"class_weight": {0: 2.0, 1: 1.0, 2: 1.0}},
        {"steps_per_epoch": 2},
    ],
    ids=str,
)
def test_a_training_is_the_same_bit_for_bit(how):
    found = []
    for _ in range(2):
        trained = model()
        with read_arrays_in_one_thread() if found else nullcontext():
            history = trained.fit(X, Y, epochs=3, verbose=0, **how).history
        found.append(([w.tobytes() for w in trained.get_weights()], history))
    assert found[0] == found[1]


def test_only_what_is_made_first_is_read_so():
    """The training's: what its validation reads was not looked at."""
    seen = []
    with read_arrays_in_one_thread():
        for _ in range(2):
            dataset = ArrayDataAdapter(X, Y, batch_size=8).get_tf_dataset()
            seen.append(dataset.options().autotune.enabled)
    assert seen == [False, None]
    assert ArrayDataAdapter.get_tf_dataset is MADE


def test_nothing_is_left_behind_by_an_error():
    with pytest.raises(ZeroDivisionError), read_arrays_in_one_thread():
        1 / 0  # noqa: B018 - the error
    assert ArrayDataAdapter.get_tf_dataset is MADE


def test_what_keras_reads_otherwise_is_left_as_it_is(monkeypatch):
    other = tf.data.Dataset.from_tensor_slices((X, Y)).batch(8)
    monkeypatch.setattr(ArrayDataAdapter, "get_tf_dataset", lambda _: other)
    told, adapter = [], ArrayDataAdapter(X, Y, batch_size=8)
    with read_arrays_in_one_thread(told.append):
        assert adapter.get_tf_dataset() is other
    assert "does not know the pipeline" in str(told[0])
    with read_arrays_in_one_thread(), pytest.raises(EditRefused):
        adapter.get_tf_dataset()


@pytest.mark.parametrize(
    "dataset",
    [
        tf.data.Dataset.range(9).batch(2),
        tf.data.Dataset.zip(tf.data.Dataset.range(9), tf.data.Dataset.range(9)).batch(2),
    ],
)
def test_another_pipeline_is_refused(dataset):
    with pytest.raises(EditRefused, match="does not know the pipeline"):
        array_feed_edits(read_pipeline(dataset))
