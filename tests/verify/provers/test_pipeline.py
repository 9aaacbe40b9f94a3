"""How many elements of a pipeline show what an edit could do wrong."""

from __future__ import annotations

import tensorflow as tf

from uncork.pipeline.ir.tree import read_pipeline
from uncork.verify.provers.pipeline import _MANY, _batches_of_caches


def batches(data: tf.data.Dataset) -> int:
    return _batches_of_caches(read_pipeline(data), 1.0)


def cached(count: int) -> tf.data.Dataset:
    return tf.data.Dataset.range(count).cache()


def test_a_cache_is_full_after_its_elements_in_batches() -> None:
    assert batches(cached(8).batch(2)) == 4


def test_a_cache_in_one_branch_is_full_after_its_share_of_the_whole() -> None:
    other = tf.data.Dataset.range(24)
    assert batches(cached(8).concatenate(other).batch(2)) == 16
    assert batches(tf.data.Dataset.zip(cached(8), other).batch(2)) == 4


def test_where_a_branch_has_no_known_share_all_is_compared() -> None:
    endless = tf.data.Dataset.range(8).repeat()
    assert batches(cached(8).concatenate(endless).batch(2)) == _MANY
    chosen = tf.data.Dataset.choose_from_datasets(
        [cached(8), tf.data.Dataset.range(8)], tf.data.Dataset.range(2).repeat(8)
    )
    assert batches(chosen) == _MANY
