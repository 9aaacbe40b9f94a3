from __future__ import annotations

import functools

import pytest
import tensorflow as tf

from uncork.core.base.errors import EditRefused
from uncork.core.edits.pipeline import DrawFirst, ParallelMap, Prefetch, SplitMap
from uncork.pipeline.analysis.lookahead_draws import (
    has_lookahead_draws,
    has_lookahead_python_calls,
    has_on_demand_variable_reads,
    is_rewritten_by_default,
)
from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.transforms.apply import apply_edit

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
    assert has_lookahead_draws(read_pipeline(data)) is too_far


def test_what_would_run_ahead_of_the_draws_is_refused():
    pipeline = read_pipeline(RANGE(9).map(noisy).take(4).repeat(2))
    with pytest.raises(EditRefused, match="no stage reads"):
        apply_edit(pipeline, DrawFirst(stage=1, expected_digest=pipeline.digest))


@pytest.mark.parametrize("kind", [SplitMap, ParallelMap])
def test_what_draws_in_its_own_time_or_promises_no_draws_may_be(kind):
    pipeline = read_pipeline(RANGE(9).map(noisy).take(4).repeat(2))
    assert apply_edit(pipeline, kind(stage=1, expected_digest=pipeline.digest))


@pytest.mark.parametrize(
    "data", [RANGE(9).map(noisy).take(4), RANGE(9).map(noisy).repeat(2).take(12)]
)
def test_what_begins_anew_may_be_drawn_first(data):
    pipeline = read_pipeline(data)
    assert apply_edit(pipeline, DrawFirst(stage=1, expected_digest=pipeline.digest))


def test_what_the_user_s_own_does_already_is_no_reason():
    pipeline = read_pipeline(RANGE(9).map(noisy).prefetch(2).take(4).repeat(2))
    assert apply_edit(pipeline, Prefetch(expected_digest=pipeline.digest))


@pytest.mark.parametrize("edit", [SplitMap, DrawFirst])
def test_a_map_that_its_author_made_synchronous_reads_nothing_ahead(edit):
    def load(x):
        return tf.exp(tf.cast(x, tf.float32)) + tf.random.uniform([])

    pipeline = read_pipeline(tf.data.Dataset.range(8).map(load, synchronous=True))
    with pytest.raises(EditRefused, match="synchronous on purpose"):
        apply_edit(pipeline, edit(stage=1, expected_digest=pipeline.digest))


def test_a_deterministic_map_is_not_run_ahead_of_draws_either():
    """``ParallelMap`` may promise other draws only where it is a map that draws."""
    words = tf.lookup.KeyValueTensorInitializer(["cat", "dog"], [1, 2])
    table = tf.lookup.StaticHashTable(words, 0)  # TensorFlow leaves what looks things up serial

    def look_up(x):
        return x + tf.cast(table.lookup(tf.strings.as_string(x)), tf.int64)

    data = RANGE(9).map(noisy).map(look_up)
    for pipeline, refused in (
        (read_pipeline(data.take(4).repeat(2)), True),
        (read_pipeline(data), False),
    ):
        edit = ParallelMap(stage=2, expected_digest=pipeline.digest)
        if refused:
            with pytest.raises(EditRefused, match="no stage reads"):
                apply_edit(pipeline, edit)
        else:
            assert apply_edit(pipeline, edit)


ROWS = tf.data.Dataset.from_generator(lambda: range(9), tf.int64)


@pytest.mark.parametrize(
    ("data", "too_far"),
    [
        (ROWS.take(4), False),
        (ROWS.prefetch(2), False),
        (ROWS.prefetch(2).take(4), True),
        (ROWS.take(4).prefetch(2), False),
        (RANGE(9).map(serial).map(plain).take(4), True),  # parallel by default
        (RANGE(9).map(serial).map(noisy).take(4), False),
        (tf.data.Dataset.zip(RANGE(9).map(serial).prefetch(2), RANGE(9)), False),
        (tf.data.Dataset.zip(RANGE(9).map(serial).prefetch(2), RANGE(4)), True),
        (RANGE(9).map(noisy).prefetch(2).take(4), False),
    ],
)
def test_where_python_is_called_for_elements_that_nobody_takes(data, too_far):
    assert has_lookahead_python_calls(read_pipeline(data)) is too_far


def test_what_would_call_python_too_often_is_refused():
    for data, refused in ((ROWS.map(noisy).take(4), True), (ROWS.map(noisy), False)):
        pipeline = read_pipeline(data)
        edit = SplitMap(stage=1, expected_digest=pipeline.digest)
        if refused:
            with pytest.raises(EditRefused, match="Python would be called"):
                apply_edit(pipeline, edit)
        else:
            assert apply_edit(pipeline, edit)


@pytest.mark.parametrize("switch", ["apply_default_optimizations", "inject_prefetch"])
def test_a_variable_is_not_read_before_the_step_that_it_is_read_after(switch):
    times = tf.Variable(2, dtype=tf.int64)
    alone = tf.data.Options()
    setattr(alone.experimental_optimization, switch, False)
    data = RANGE(9).map(lambda x: x * times).batch(2)
    pipeline = read_pipeline(data.with_options(alone))
    assert not is_rewritten_by_default(pipeline)
    with pytest.raises(EditRefused, match="variable would be read before"):
        apply_edit(pipeline, Prefetch(expected_digest=pipeline.digest))
    for free in (data, data.prefetch(1).batch(2).with_options(alone)):
        assert apply_edit(read_pipeline(free), Prefetch(expected_digest=read_pipeline(free).digest))


def test_nothing_else_lets_it_be_read_sooner_either():
    """Without tf.data's rewrites a plain map prepares nothing, whatever it is a function of."""
    times = tf.Variable(2, dtype=tf.int64)
    alone = tf.data.Options()
    alone.autotune.enabled = False
    scaled = RANGE(9).map(lambda x: x * times)
    for data, edit in (
        (scaled.map(plain).batch(2), Prefetch),
        (scaled.map(plain).batch(2), functools.partial(ParallelMap, stage=2)),
        (scaled.batch(2), functools.partial(ParallelMap, stage=1)),
    ):
        pipeline = read_pipeline(data.with_options(alone))
        assert has_on_demand_variable_reads(pipeline)
        with pytest.raises(EditRefused, match="variable would be read before"):
            apply_edit(pipeline, edit(expected_digest=pipeline.digest))
