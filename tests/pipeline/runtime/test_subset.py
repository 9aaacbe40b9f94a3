"""Pipelines over a part of their data: the same work on every n-th element of each source."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.runtime.subset import take_every_nth

RANGE = tf.data.Dataset.range
ROWS = np.arange(40)


def elements(dataset):
    return [tf.nest.map_structure(lambda x: x.numpy().tolist(), each) for each in dataset]


def windows():
    """As Keras's ``timeseries_dataset_from_array`` makes them."""
    starts = tf.data.Dataset.from_tensors(ROWS[:30]).repeat()
    numbers = tf.data.Dataset.zip((RANGE(30), starts))
    return numbers.map(lambda n, at: tf.range(at[n], at[n] + 3)).batch(2)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: RANGE(40), list(range(0, 40, 4))),
        (lambda: RANGE(16).map(lambda x: 2 * x).filter(lambda x: x > 0), [8, 16, 24]),
        (lambda: RANGE(38).batch(4), [[0, 4, 8, 12], [16, 20, 24, 28], [32, 36]]),
        (lambda: RANGE(38).batch(4, True), [[0, 4, 8, 12], [16, 20, 24, 28]]),
        (lambda: tf.data.Dataset.zip((RANGE(8), RANGE(8, 16))), [(0, 8), (4, 12)]),
        (lambda: RANGE(8).concatenate(RANGE(20, 28)), [0, 4, 20, 24]),
        (lambda: RANGE(8).interleave(lambda x: RANGE(x, x + 2)), [0, 4, 1, 5]),
        (lambda: RANGE(20).skip(8).map(lambda x: x), [8, 12, 16]),
        (lambda: RANGE(100).take(9).shard(2, 1), [1]),
        (lambda: RANGE(100).take(8).map(lambda x: x).skip(2), [2, 6]),
        (windows, [[list(range(n, n + 3)) for n in (m, m + 4)] for m in (0, 8, 16, 24)]),
    ],
)
def test_every_fourth_element_of_each_source(make, expected):
    dataset = make()
    whole = elements(dataset.take(50))
    found = take_every_nth(read_pipeline(dataset), 4)
    assert elements(found.dataset) == expected
    assert elements(dataset.take(50)) == whole  # the given one is left as it is


@pytest.mark.parametrize(
    "make",
    [
        lambda: RANGE(40).map(lambda x: 3 * x).cache().batch(4),
        lambda: RANGE(40).batch(2).cache().unbatch().batch(4),
        lambda: RANGE(40).cache().map(lambda x: x + 1).cache().batch(4),
        lambda: tf.data.Dataset.zip((RANGE(40).cache(), RANGE(40))).batch(4),
        lambda: tf.data.Dataset.zip((RANGE(40), RANGE(40))).cache().batch(4),
        lambda: RANGE(40).batch(4),
    ],
)
def test_what_is_kept_is_given_again_and_again(make):
    dataset = make()
    found = take_every_nth(read_pipeline(dataset), 4, is_repeated=True)
    whole, part = elements(dataset.unbatch()), elements(found.dataset.unbatch())
    assert part == whole[::4] * 4
    assert len(elements(found.dataset)) == len(elements(dataset))
    assert elements(found.dataset.unbatch()) == part  # what was read is in the caches by now


def test_a_cache_of_several_branches_stays_one():
    kept = RANGE(40).map(lambda x: tf.random.uniform(())).cache()
    dataset = tf.data.Dataset.zip((kept, kept.map(lambda x: x + 0.0)))
    found = take_every_nth(read_pipeline(dataset), 4).dataset
    elements(found)  # each branch draws, and one of them fills it
    assert len(elements(found)) == 10
    assert all(a == b for a, b in elements(found))


def test_an_endless_pipeline_stays_so():
    found = take_every_nth(read_pipeline(RANGE(40).cache().repeat().batch(4)), 10)
    assert found.cardinality == tf.data.INFINITE_CARDINALITY
    assert elements(found.dataset.take(2)) == [[0, 10, 20, 30], [0, 10, 20, 30]]


@pytest.mark.parametrize(
    "make",
    [
        lambda: tf.data.Dataset.from_generator(
            lambda: iter(ROWS), output_signature=tf.TensorSpec(())
        ),
        lambda: tf.data.Dataset.from_tensors(ROWS),
        tf.data.Dataset.counter,
        lambda: tf.data.TextLineDataset([__file__]).cache(),
        lambda: RANGE(1).cache(),
        lambda: RANGE(40).cache().skip(8),
        lambda: RANGE(40).apply(tf.data.experimental.assert_cardinality(40)).cache(),
        lambda: tf.data.Dataset.choose_from_datasets([RANGE(40), RANGE(40)], RANGE(2).repeat(9)),
    ],
)
def test_a_source_that_cannot_be_cut(make):
    assert take_every_nth(read_pipeline(make()), 4) is None


def test_a_cache_in_files_is_not_one_pass_s_own(tmp_path):
    assert take_every_nth(read_pipeline(RANGE(40).cache(str(tmp_path / "kept"))), 4) is None
    assert list(tmp_path.iterdir()) == []
