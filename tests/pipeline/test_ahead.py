from __future__ import annotations

import pytest
import tensorflow as tf

from uncork.core.errors import EditRefused
from uncork.core.pipeline_edit import DrawFirst, ParallelMap, Prefetch, SplitMap
from uncork.pipeline import apply, read
from uncork.pipeline.ahead import draws_too_far

RANGE = tf.data.Dataset.range


def noisy(x):
    worked = tf.strings.length(tf.strings.as_string(x * 3))
    return tf.cast(worked, tf.int64) + tf.random.uniform([], 0, 1000, tf.int64) * 2


def plain(x):
    return x + 1


def serial(x):
    return tf.py_function(lambda y: y + 1, [x], tf.int64)


@pytest.mark.parametrize(
    ("data", "too_far"),
    [
        (RANGE(9).map(noisy).take(4).repeat(2), False),
        (RANGE(9).map(noisy).map(plain).take(4).repeat(2), True),  # parallel by default
        (RANGE(9).map(noisy).map(serial).take(4).repeat(2), False),
        (RANGE(9).map(noisy, num_parallel_calls=2).take(4).repeat(2), True),
        (RANGE(9).map(noisy).prefetch(2).take(4).repeat(2), True),
        (RANGE(9).map(noisy).prefetch(2).take(4), False),
        (RANGE(9).map(noisy).prefetch(2).repeat(2).take(4), False),
        (RANGE(9).map(noisy).take(4).prefetch(2).repeat(2), False),
        (RANGE(9).map(plain).prefetch(2).take(4).repeat(2), False),
        (RANGE(9).shuffle(9).prefetch(2).take(4).repeat(2), False),
        (tf.data.Dataset.zip(RANGE(9).map(noisy).prefetch(2), RANGE(4)).repeat(2), True),
        (RANGE(9).map(noisy).prefetch(2).concatenate(RANGE(4)).repeat(2), False),
    ],
)
def test_where_numbers_are_drawn_for_elements_that_nobody_takes(data, too_far):
    assert draws_too_far(read(data)) is too_far


def test_what_would_run_ahead_of_the_draws_is_refused():
    pipeline = read(RANGE(9).map(noisy).take(4).repeat(2))
    with pytest.raises(EditRefused, match="nobody takes"):
        apply(pipeline, DrawFirst(stage=1, expects=pipeline.digest))


@pytest.mark.parametrize("kind", [SplitMap, ParallelMap])
def test_what_draws_in_its_own_time_or_promises_no_draws_may_be(kind):
    pipeline = read(RANGE(9).map(noisy).take(4).repeat(2))
    assert apply(pipeline, kind(stage=1, expects=pipeline.digest))


@pytest.mark.parametrize(
    "data", [RANGE(9).map(noisy).take(4), RANGE(9).map(noisy).repeat(2).take(12)]
)
def test_what_begins_anew_may_be_drawn_first(data):
    pipeline = read(data)
    assert apply(pipeline, DrawFirst(stage=1, expects=pipeline.digest))


def test_what_the_user_s_own_does_already_is_no_reason():
    pipeline = read(RANGE(9).map(noisy).prefetch(2).take(4).repeat(2))
    assert apply(pipeline, Prefetch(expects=pipeline.digest))


@pytest.mark.parametrize("edit", [SplitMap, DrawFirst])
def test_a_map_that_its_author_made_synchronous_reads_nothing_ahead(edit):
    def load(x):
        return tf.exp(tf.cast(x, tf.float32)) + tf.random.uniform([])

    pipeline = read(tf.data.Dataset.range(8).map(load, synchronous=True))
    with pytest.raises(EditRefused, match="synchronous on purpose"):
        apply(pipeline, edit(stage=1, expects=pipeline.digest))
