"""Calls under way at once, where the autotuner does not choose."""

from __future__ import annotations

import math

import pytest
import tensorflow as tf

from uncork.core.edit import AutotuneOff, DrawFirst, ParallelMap
from uncork.core.stage import AUTOTUNE
from uncork.measure.machine import cpus
from uncork.pipeline import apply, read

from .conftest import load_and_flip
from .helpers import epochs

MANY = 8 * math.ceil(cpus())


def plus_one(x):
    return x + 1


def off(dataset):
    return apply(read(dataset), AutotuneOff(expects=read(dataset).digest))


def rows(shape):
    return tf.data.Dataset.range(8).map(lambda x: tf.zeros(shape))


def test_without_the_autotuner_some_calls_are_made_ahead() -> None:
    before = tf.data.Dataset.range(40).map(plus_one, num_parallel_calls=AUTOTUNE).batch(4)
    after = off(before)
    assert after.stages[1].parallelism == MANY
    assert epochs(after.dataset, passes=2) == epochs(before, passes=2)
    assert read(before).stages[1].parallelism == AUTOTUNE


def test_the_digest_is_that_of_any_machine() -> None:
    before = tf.data.Dataset.range(40).map(plus_one, num_parallel_calls=AUTOTUNE)
    options = tf.data.Options()
    options.autotune.enabled = False
    assert off(before).digest == read(before.with_options(options)).digest


def test_a_map_made_parallel_later_has_as_many() -> None:
    after = off(tf.data.Dataset.range(40).map(plus_one))
    parallel = apply(after, ParallelMap(stage=1, expects=after.digest))
    assert parallel.stages[1].parallelism == MANY


def test_so_has_the_work_that_goes_by_draws(jpegs) -> None:
    labels = list(range(len(jpegs)))
    after = off(tf.data.Dataset.from_tensor_slices((jpegs, labels)).map(load_and_flip))
    drawn = apply(after, DrawFirst(stage=1, expects=after.digest))
    assert [node.parallelism for node in drawn.stages if node.kind == "map"] == [1, MANY]


def test_with_the_autotuner_the_number_stays_open() -> None:
    before = read(tf.data.Dataset.range(40).map(plus_one))
    parallel = apply(before, ParallelMap(stage=1, expects=before.digest))
    assert parallel.stages[1].parallelism == AUTOTUNE


@pytest.mark.parametrize(
    "function",
    [
        lambda x: tf.cast(x, tf.float32) + tf.random.uniform([]),
        lambda x: tf.numpy_function(abs, [x], tf.int64),
        lambda x: tf.zeros([x, 3]),  # of any size
    ],
)
def test_what_may_do_more_than_it_gives_is_left_alone(function) -> None:
    before = tf.data.Dataset.range(8).map(function, num_parallel_calls=AUTOTUNE)
    assert off(before).stages[1].parallelism == AUTOTUNE


def test_a_number_of_the_users_own_is_kept() -> None:
    before = tf.data.Dataset.range(8).map(plus_one, num_parallel_calls=3)
    assert off(before).stages[1].parallelism == 3


@pytest.mark.parametrize(
    ("megabytes", "calls"), [(1, min(MANY, 64)), (20, max(3, math.ceil(cpus()))), (600, cpus())]
)
def test_large_elements_are_not_piled_up(megabytes, calls) -> None:
    def large(x):
        return tf.zeros([megabytes, 1_000_000], tf.uint8)

    before = tf.data.Dataset.range(1).map(large, num_parallel_calls=AUTOTUNE)
    assert off(before).stages[1].parallelism == math.ceil(calls)
