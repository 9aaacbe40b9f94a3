"""Scripts that leave the order to the threads: ``deterministic=False``, by option or argument."""

from __future__ import annotations

import threading
import time

import pytest
import tensorflow as tf

from pipeline.helpers import epochs
from pipeline.transforms.test_apply import edited, noisy, words
from uncork.core.edits.pipeline import (
    Cache,
    FilterFirst,
    InlineMap,
    ShuffleFirst,
    SplitMap,
    VectorizeMap,
)
from uncork.pipeline.analysis.legality import is_repeatable
from uncork.pipeline.equivalence.seeded_twin import create_seeded_copy
from uncork.pipeline.ir.element_order import has_nondeterministic_order, with_deterministic_order
from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.transforms.apply import apply_edit

RANGE = tf.data.Dataset.range


def sluggish(x):
    """Odd ones take longer, so that even ones overtake them."""
    return tf.numpy_function(lambda v: (time.sleep(0.02 * (v % 2)), v * 3)[1], [x], tf.int64)


def files(folder):
    for number in range(3):
        with tf.io.TFRecordWriter(str(folder / f"{number}")) as out:
            for row in range(4):
                out.write(b"%d" % (10 * number + row))
    return sorted(map(str, folder.iterdir()))


def by_option(data, order):
    options = tf.data.Options()
    options.deterministic = order
    return data.with_options(options)


OPEN = {
    "an argument": lambda order: RANGE(12).map(sluggish, 4, deterministic=order),
    "an option": lambda order: by_option(RANGE(12).map(sluggish, 4), order),
    "an option, batches": lambda order: by_option(RANGE(12).map(sluggish, 4).batch(2), order),
    "files": lambda order: RANGE(3).interleave(
        lambda n: RANGE(4).map(lambda x: 10 * n + x), 3, num_parallel_calls=3, deterministic=order
    ),
    "batches": lambda order: RANGE(12).batch(2, num_parallel_calls=2, deterministic=order),
    "in a branch": lambda order: tf.data.Dataset.zip(
        RANGE(12).map(sluggish, 4, deterministic=order), RANGE(12)
    ),
    "shuffled": lambda order: RANGE(12).map(sluggish, 4, deterministic=order).shuffle(5, seed=3),
}


@pytest.mark.parametrize("case", OPEN)
def test_in_order_nothing_overtakes(case):
    pipeline, strict = (read_pipeline(OPEN[case](order)) for order in (False, True))
    assert has_nondeterministic_order(pipeline)
    assert not has_nondeterministic_order(strict)
    assert epochs(with_deterministic_order(pipeline)) == epochs(strict.dataset)


def test_one_that_waits_is_overtaken_and_in_order_is_not():
    """So that the others show something: the first element is made when the third one is."""
    third = threading.Event()

    def overtaken(x):
        if x == 2:
            third.set()
        elif x == 0:
            third.wait(60)
            time.sleep(0.1)  # to be handed out, the other one needs a moment still
        return x * 3

    options = tf.data.Options()
    options.threading.private_threadpool_size = 4  # on one core, too
    data = RANGE(12).map(lambda x: tf.numpy_function(overtaken, [x], tf.int64), 4)
    data = by_option(data, False).with_options(options)
    assert [int(x) for x in data] != [3 * x for x in range(12)]
    third.clear()
    assert [int(x) for x in with_deterministic_order(read_pipeline(data))] == [
        3 * x for x in range(12)
    ]


def test_records_of_several_files_are_in_order(tmp_path):
    data = by_option(tf.data.TFRecordDataset(files(tmp_path), num_parallel_reads=3), False)
    pipeline = read_pipeline(data.map(lambda x: tf.strings.to_number(x, tf.int64), 2))
    assert has_nondeterministic_order(pipeline)
    serial = [int(x) for x in with_deterministic_order(pipeline)]
    assert sorted(serial) == [10 * n + row for n in range(3) for row in range(4)]
    assert serial == [int(x) for x in with_deterministic_order(pipeline)]


@pytest.mark.parametrize(
    "data",
    [
        RANGE(4).map(words, num_parallel_calls=2),
        by_option(RANGE(4).map(words, num_parallel_calls=2, deterministic=True), False),
        by_option(RANGE(4).batch(2), False),
        RANGE(4).shuffle(4),
    ],
)
def test_others_leave_no_order_open_and_are_not_touched(data):
    pipeline = read_pipeline(data)
    assert not has_nondeterministic_order(pipeline)
    assert with_deterministic_order(pipeline) is pipeline.dataset


EDITS = {
    "cache": (lambda d: d.map(words, 4), Cache, 1),
    "cache, more above": (lambda d: d.map(words, 4).map(words_of_two, 2).shuffle(5), Cache, 2),
    "cache of files": (
        lambda d: d.interleave(lambda x: RANGE(3).map(lambda y: x + y), 2, num_parallel_calls=2),
        Cache, 1,
    ),
    "cache of what draws": (lambda d: d.map(noisy, 4).batch(2), SplitMap, 1),
    "shuffle first": (lambda d: d.map(words, 4).shuffle(5).batch(2), ShuffleFirst, 2),
    "filter first": (
        lambda d: d.map(lambda x: (words(x), x), 4).filter(lambda _, x: x % 2 == 0),
        FilterFirst, 2,
    ),
    "skip first": (lambda d: d.map(words, 4).skip(2), FilterFirst, 2),
    "vectorize": (lambda d: d.map(words, 4).shuffle(9).batch(4), VectorizeMap, 1),
    "inline": (lambda d: d.map(lambda x: x + 1, 4), InlineMap, 1),
}  # fmt: skip


def words_of_two(x):
    return words(tf.cast(x, tf.int64)) + 1


@pytest.mark.parametrize("case", EDITS)
def test_in_order_an_edit_changes_nothing(case):
    make, edit, stage = EDITS[case]
    data = by_option(make(RANGE(12)), False)
    assert has_nondeterministic_order(read_pipeline(data))
    before = epochs(with_deterministic_order(create_seeded_copy(read_pipeline(data), 5)))
    after = edited(
        create_seeded_copy(read_pipeline(data), 5),
        lambda digest: edit(stage=stage, expected_digest=digest),
    )
    assert epochs(with_deterministic_order(after)) == before


def test_as_it_runs_a_cache_holds_the_same_elements():
    pipeline = read_pipeline(RANGE(12).map(words, 4, deterministic=False))
    after = apply_edit(pipeline, Cache(stage=1, expected_digest=pipeline.digest))
    first, second = ([int(x) for x in after.dataset] for _ in range(2))
    assert first == second
    assert sorted(first) == sorted(int(x) for x in pipeline.dataset)


def test_readers_that_overtake_each_other_put_batches_together_anew(tmp_path):
    """So no cache of whole batches is legal, which would freeze who is in them."""
    records = tf.data.TFRecordDataset(files(tmp_path), num_parallel_reads=tf.data.AUTOTUNE)
    for loose in (True, False):
        data = by_option(records, not loose).batch(2)
        assert is_repeatable(read_pipeline(data).root, is_ordered=not loose) is not loose
        assert has_nondeterministic_order(read_pipeline(data)) is loose
