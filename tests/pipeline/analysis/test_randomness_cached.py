"""Traps and lines that are read from the pipeline itself: frozen draws, calls into Python."""

from __future__ import annotations

import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from pipeline.helpers import by_decree

RANGE = tf.data.Dataset.range


def by_op(x):
    return tf.cast(x, tf.float32) + tf.random.uniform([])


def by_generator(generator):
    return lambda x: tf.cast(x, tf.float32) + generator.uniform([])


def augmented():
    layer = keras.layers.RandomBrightness(0.5)
    return lambda x: layer(tf.ones([4, 4, 3]) * tf.cast(x, tf.float32), training=True)


def with_seeds(*, anew):
    seeds = tf.data.Dataset.random(seed=1, rerandomize_each_iteration=anew).batch(2)
    zipped = tf.data.Dataset.zip(RANGE(6), seeds)
    return zipped.map(lambda x, seed: tf.random.stateless_uniform([], seed))


DRAWN = {
    "a random op": lambda: RANGE(6).map(by_op),
    "below a batch": lambda: RANGE(6).map(by_op).batch(2),
    "a generator": lambda: RANGE(6).map(by_generator(tf.random.Generator.from_seed(1))),
    "a Keras layer": lambda: RANGE(6).map(augmented()),
    "seeds that are drawn anew": lambda: with_seeds(anew=True),
}
REPEATED = {
    "nothing random": lambda: RANGE(6).map(lambda x: x + 1),
    "a stateless op": lambda: RANGE(6).map(lambda x: tf.random.stateless_uniform([], [x, x])),
    "seeds that come again": lambda: with_seeds(anew=False),
    "a shuffle": lambda: RANGE(6).shuffle(6),
    "Python": lambda: RANGE(6).map(lambda x: tf.py_function(lambda v: v, [x], tf.int64)),
}


def caches(data):
    stages = by_decree(data, batch_size=1)
    return [stage.has_frozen_randomness for stage in stages if stage.kind == "cache"]


@pytest.mark.parametrize("case", DRAWN)
def test_draws_below_a_cache_are_frozen(case):
    assert caches(DRAWN[case]().cache().batch(2)) == [True]


@pytest.mark.parametrize("case", REPEATED)
def test_what_comes_again_anyway_is_not_frozen(case):
    assert caches(REPEATED[case]().cache()) == [False]


def test_draws_above_a_cache_are_alive():
    assert caches(RANGE(6).cache().map(by_op)) == [False]


def test_only_the_lowest_cache_is_to_blame():
    assert caches(RANGE(6).map(by_op).cache().batch(2).cache()) == [True, False]


def slow(x):
    return tf.numpy_function(np.float32, [x], tf.float32)


LINE = sys._getframe().f_lineno - 3


def test_the_call_into_python_has_a_line_of_its_own():
    mapped = by_decree(RANGE(6).map(slow), batch_size=1)[1]
    assert mapped.has_python_code
    assert mapped.python_code_at.rpartition(":")[2] == str(LINE)
    assert mapped.at != mapped.python_code_at


def test_without_python_there_is_no_such_line():
    assert by_decree(RANGE(6).map(by_op), batch_size=1)[1].python_code_at is None


def heavy(x):
    y = tf.random.stateless_normal([300, 300], [1, 2])
    return tf.cast(x, tf.float32) + tf.reduce_sum(y @ y)


@pytest.mark.parametrize(("endless", "costs"), [(False, 0.0), (True, 4.0)])
def test_a_cache_of_endless_data_spares_nothing(endless, costs):
    data = RANGE(8).map(heavy)
    data = (data.repeat() if endless else data).cache().batch(4)
    stages = by_decree(data)
    assert stages[1].elements_per_step == costs
