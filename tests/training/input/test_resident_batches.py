"""Batches of one shape, of different lengths, of none."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
import tensorflow as tf

from uncork.training.input.resident_batches import collect_resident_batches


def test_of_batches_of_one_shape_a_full_one_is_held() -> None:
    batches = tf.data.Dataset.from_tensor_slices((tf.zeros((10, 3)), tf.zeros(10))).batch(4)
    short_first = batches.skip(2).concatenate(batches)
    assert [x.shape[0] for x, _ in collect_resident_batches(short_first)] == [4]


def test_batches_of_different_lengths_are_held_up_to_some_tens() -> None:
    texts = tf.data.Dataset.range(1, 400).map(lambda n: tf.zeros((2, n % 7 + 1)))
    assert [batch.shape[1] for batch in collect_resident_batches(texts)] == [
        n % 7 + 1 for n in range(1, 33)
    ]


def test_fewer_are_held_where_each_has_to_be_compiled() -> None:
    texts = tf.data.Dataset.range(1, 400).map(lambda n: tf.zeros((2, n % 7 + 1)))
    assert len(collect_resident_batches(texts, is_compiled=True)) == 8


def test_an_open_shape_that_stays_the_same_is_one_shape() -> None:
    images = tf.data.Dataset.range(50).map(lambda _: tf.ensure_shape(tf.zeros((2, 4)), (2, None)))
    unknown = images.map(lambda x: tf.numpy_function(lambda a: a, [x], tf.float32))
    assert unknown.element_spec.shape.rank is None
    assert [batch.shape for batch in collect_resident_batches(unknown)] == [(2, 4)]


@pytest.mark.parametrize("kind", ["ragged", "sparse"])
def test_what_has_no_shape_of_its_own_differs_by_its_parts(kind: str) -> None:
    def of(n: tf.Tensor) -> tf.RaggedTensor | tf.SparseTensor:
        if kind == "ragged":
            return tf.RaggedTensor.from_row_lengths(tf.zeros(n), tf.reshape(n, (1,)))
        return tf.sparse.from_dense(tf.one_hot(tf.range(n) % 5, 5))

    lengths = tf.data.Dataset.range(1, 5)
    assert len(collect_resident_batches(lengths.map(of))) == 4


def test_nothing_is_held_of_an_empty_dataset() -> None:
    assert collect_resident_batches(tf.data.Dataset.range(10).take(0).batch(2)) == ()


def test_large_batches_are_not_all_read() -> None:
    read = itertools.count()

    def large() -> Iterator[tf.Tensor]:
        for rows in itertools.count(1):
            next(read)
            yield tf.zeros((1, (8 << 20) + rows))

    shape = tf.TensorSpec((1, None), tf.float32)
    # What TensorFlow prefetches by itself would be read too, more or less of it.
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    batches = tf.data.Dataset.from_generator(large, output_signature=shape).with_options(options)
    assert len(collect_resident_batches(batches)) == 2
    assert next(read) == 2
