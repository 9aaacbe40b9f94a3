from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter

from training.models import BATCH, N, Pages, X, Y, dataset, mlp
from uncork.training.input.feed import Feed, count_batch_samples, spec_text
from uncork.training.input.loader_costs import measure_loader_stages


def generator():
    yield X[:4], Y[:4]


@pytest.mark.parametrize(
    ("x", "kind"),
    [
        (dataset(), "tf.data"),
        (X, "numpy"),
        ({"a": X}, "numpy"),
        ([X, X], "numpy"),
        (tf.constant(X), "numpy"),
        (Pages(), "pydataset"),
        (generator(), "generator"),
        ([1, 2], "other"),
        (None, "other"),
    ],
)
def test_what_feeds_it_is_told_apart(x, kind):
    assert Feed(x=x).kind == kind
    assert Feed(x=x).dataset is (x if kind == "tf.data" else None)


def test_a_validation_split_is_set_aside_as_keras_does():
    feed = Feed.from_arguments({"x": X, "y": Y, "validation_split": 0.25})
    np.testing.assert_array_equal(feed.x, X[:16])
    np.testing.assert_array_equal(feed.y, Y[:16])
    given = Feed.from_arguments(
        {"x": X, "y": Y, "validation_split": 0.25, "validation_data": (X, Y)}
    )
    assert len(given.x) == N


def test_shuffle_is_for_arrays_only():
    assert Feed.from_arguments({"x": X, "y": Y}).shuffle
    assert not Feed.from_arguments({"x": X, "y": Y, "shuffle": False}).shuffle
    assert not Feed.from_arguments({"x": dataset()}).shuffle


@pytest.mark.parametrize(
    ("feed", "text"),
    [
        (Feed(x=X, y=Y), "('float32[batch, 6]', 'float32[batch, 2]')"),
        (Feed(x=dataset()), "('float32[batch, 6]', 'float32[batch, 2]')"),
        (Feed(x=X), "('float32[batch, 6]',)"),
        (Feed(x=Pages()), "Pages"),
    ],
)
def test_the_spec_is_the_same_in_every_process(feed, text):
    assert feed.spec == text


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (tf.TensorSpec([32, 4], tf.int8), "int8[batch, 4]"),
        (tf.TensorSpec([None, None]), "float32[batch, None]"),
        (tf.RaggedTensorSpec([None, None], tf.int32), "int32[batch, None]"),
        (tf.SparseTensorSpec([None, 9], tf.int64), "int64[batch, 9]"),
        (tf.TensorSpec([], tf.string), "string[batch]"),
        (tf.TensorSpec(None), "TensorSpec"),
    ],
)
def test_specs_leave_out_the_batch(spec, text):
    assert spec_text(spec) == text


class Table:
    """As a DataFrame describes itself: columns have types, the whole has none."""

    shape = (32, 4)


class Column:
    """Of a type that TensorFlow does not know."""

    shape = (32,)
    dtype = "Int64"


def test_tables_and_their_columns_have_specs_too():
    assert spec_text((Table(), Column())) == "('Table[batch, 4]', 'Int64[batch]')"


@pytest.mark.parametrize(
    ("batch", "samples"),
    [
        ((tf.zeros([3, 2]), tf.zeros([3])), 3),
        ({"a": tf.zeros([5])}, 5),
        (tf.ragged.constant([[1], [2, 3]]), 2),
        (tf.sparse.from_dense([[1, 0], [0, 1], [1, 1]]), 3),
        (tf.constant(1.0), None),
        ((tf.constant(1.0), tf.zeros([7])), 7),
    ],
)
def test_samples_of_a_batch(batch, samples):
    assert count_batch_samples(batch) == samples


def test_a_loader_is_a_stage_with_its_line():
    (stage,) = measure_loader_stages(Feed(x=Pages()))
    assert (stage.kind, stage.name, stage.has_python_code) == ("pydataset", "Pages", True)
    assert "models.py:" in stage.at
    assert stage.wall_s_per_element > 0
    assert measure_loader_stages(Feed(x=X)) == ()
    assert measure_loader_stages(Feed(x=dataset())) == ()


def test_batches_are_those_of_keras():
    model = mlp()
    batches = list(Feed(x=X, y=Y, batch_size=BATCH, shuffle=False).batches_dataset(model))
    assert [count_batch_samples(b) for b in batches] == [4, 4, 4, 4, 4, 2]
    np.testing.assert_array_equal(batches[-1][0], X[20:])


@pytest.mark.parametrize("dtype", ["float64", "float16", "float32", "uint8", "bool"])
def test_arrays_are_made_tensors_once(dtype):
    x, y = np.arange(12).reshape(6, 2).astype(dtype), np.arange(6)
    feed = Feed(x={"a": x, "b": x}, y=y, batch_size=4, shuffle=False)
    once = feed.batches_dataset(mlp())
    keras_s = ArrayDataAdapter({"a": x, "b": x}, y, batch_size=4, shuffle=False).get_tf_dataset()
    assert once.element_spec == keras_s.element_spec
    batches = [tf.nest.flatten(batch) for batch in once]
    expected = [tf.nest.flatten(batch) for batch in keras_s]
    for ours, theirs in zip(batches, expected, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(a, b)
    held = dict(feed.tensor_cache)
    assert len(held) == 2
    again = feed.with_batch_size(2)
    assert len(list(again.batches_dataset(mlp()))) == 3
    assert all(again.tensor_cache[key] is held[key] for key in held)


def test_what_is_no_array_of_numbers_is_left_to_keras():
    words, table = np.array(["a", "b"], object), tf.constant([[1.0], [2.0]])
    feed = Feed(x=[words, table], batch_size=2, shuffle=False)
    ((given, *_),) = feed.batches_dataset(mlp())
    assert given[0].numpy().tolist() == [b"a", b"b"]
    assert not feed.tensor_cache
