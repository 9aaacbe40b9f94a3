"""Maps that draw alike in each pass are told from those that do not: by reading them twice."""

from __future__ import annotations

import keras
import pytest
import tensorflow as tf

from uncork.pipeline.analysis.randomness import has_repeating_randomness
from uncork.pipeline.ir.tree import read_pipeline

RANGE = tf.data.Dataset.range


@pytest.fixture(autouse=True)
def global_seed():
    tf.random.set_seed(5)
    yield
    tf.random.set_seed(None)


def noise(x):
    return tf.cast(x, tf.float32) + tf.random.uniform([])


def of_its_own(x):
    return tf.cast(x, tf.float32) + tf.random.uniform([], seed=3)


def in_a_branch(x):
    return tf.cond(x % 2 == 0, lambda: noise(x), lambda: 0.0)


def by_generator():
    generator = tf.random.Generator.from_seed(1)
    return lambda x: tf.cast(x, tf.float32) + generator.uniform([])


def by_layer():
    layer = keras.layers.RandomBrightness(0.5, value_range=(0, 1))
    return lambda x: layer(tf.fill([2, 2, 3], 0.5) + 0 * tf.cast(x, tf.float32), training=True)


def python(x):
    return tf.cast(tf.py_function(lambda v: v, [x], tf.int64), tf.float32) + tf.random.uniform([])


def by_variable():
    variable = tf.Variable(1.0)
    return lambda x: noise(x) * variable


def files(x):
    return RANGE(9 * x, 9 * x + 9)


def seeds(*, anew):
    drawn = tf.data.Dataset.random(seed=1, rerandomize_each_iteration=anew)
    return drawn.take(9).map(lambda s: noise(s % 7))


ALIKE = {
    "a map": lambda: RANGE(9).map(noise),
    "a seed of its own": lambda: RANGE(9).map(of_its_own),
    "in a branch": lambda: RANGE(9).map(in_a_branch),
    "above a batch": lambda: RANGE(9).batch(3).map(noise),
    "above another": lambda: RANGE(9).map(of_its_own).map(noise),
    "above an interleave": lambda: RANGE(3).interleave(files).map(noise),
    "a shuffle that keeps its order": lambda: (
        RANGE(9).shuffle(9, seed=1, reshuffle_each_iteration=False).map(noise)
    ),
    "above a cache": lambda: RANGE(9).shuffle(9).cache().map(noise),
    "numbers that come again": lambda: seeds(anew=False),
}
OTHERS = {
    "a shuffle": lambda: RANGE(9).shuffle(9).map(noise),
    "a generator": lambda: RANGE(9).map(by_generator()),
    "a Keras layer": lambda: RANGE(9).map(by_layer()),
    "above a generator": lambda: RANGE(9).map(by_generator()).map(noise),
    "numbers that are drawn anew": lambda: seeds(anew=True),
}
UNTOLD = {
    "nothing random": lambda: RANGE(9).map(lambda x: x + 1),
    "calls that race for the draws": lambda: RANGE(9).map(noise, num_parallel_calls=2),
    "data that is made up": lambda: RANGE(9).map(lambda x: tf.random.normal([3])),
    "made up, in rows": lambda: RANGE(9).batch(3).map(lambda x: tf.random.normal(tf.shape(x))),
    "a shuffle in a flat_map": lambda: RANGE(3).flat_map(lambda x: files(x).shuffle(9)).map(noise),
    "a shuffle in an interleave": lambda: (
        RANGE(3).interleave(lambda x: files(x).shuffle(9)).map(of_its_own)
    ),
    "a variable": lambda: RANGE(9).map(by_variable()),
    "Python": lambda: RANGE(9).map(python),
    "a Python generator": lambda: tf.data.Dataset.from_generator(
        lambda: iter(range(9)), output_signature=tf.TensorSpec((), tf.int64)
    ).map(noise),
    "an order left to the threads": lambda: (
        RANGE(9).map(lambda x: x, num_parallel_calls=2, deterministic=False).map(noise)
    ),
}


def random_maps(data):
    """Of the maps, from the top: what is said."""
    places = [place.node for place in read_pipeline(data).stage_locations]
    return [has_repeating_randomness(node) for node in places if node.kind == "map"]


def passes(data):
    return [[x.tolist() for x in data.as_numpy_iterator()] for _ in range(2)]


@pytest.mark.parametrize("case", ALIKE)
def test_two_passes_are_alike(case):
    data = ALIKE[case]()
    assert any(random_maps(data))
    first, second = passes(data)
    assert first == second


@pytest.mark.parametrize("case", OTHERS)
def test_two_passes_differ(case):
    data = OTHERS[case]()
    assert not any(random_maps(data))
    first, second = passes(data)
    assert first != second


@pytest.mark.parametrize("case", UNTOLD)
def test_nothing_is_said(case):
    assert not any(random_maps(UNTOLD[case]()))


def test_without_any_seed_passes_differ():
    tf.random.set_seed(None)
    data = RANGE(9).map(noise)
    assert random_maps(data) == [False]
    first, second = passes(data)
    assert first != second


def test_one_pass_that_repeats_goes_on():
    whole = [x.tolist() for x in RANGE(9).map(noise).repeat(2).as_numpy_iterator()]
    assert whole[:9] != whole[9:]
