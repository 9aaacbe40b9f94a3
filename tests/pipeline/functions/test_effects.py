from __future__ import annotations

import keras
import pytest
import tensorflow as tf

from pipeline.helpers import changing_table, function_of, in_a_branch, in_a_function, table, twice
from uncork.pipeline.functions.effects import (
    has_python_calls,
    has_variable_reads,
    is_deterministic,
    is_order_free,
    is_stateless,
)
from uncork.pipeline.functions.splitting import split_deterministic_prefix
from uncork.pipeline.ir.tree import read_pipeline


def with_assert(x):
    tf.debugging.assert_less(x, tf.constant(9, tf.int64))
    return x + 1


def branch(x):
    return tf.cond(x > 2, lambda: x + 1, lambda: x)


def loop(x):
    return tf.map_fn(lambda y: y * 2, tf.range(3, dtype=tf.int64) + x)


def with_checked_numbers(x):
    return tf.debugging.check_numerics(tf.cast(x, tf.float32), "not a number")


def random_branch(x):
    return tf.cond(x > 2, lambda: tf.random.uniform([], 0, 5, tf.int64), lambda: x)


def random_loop(x):
    return tf.map_fn(lambda y: y + tf.random.uniform([], 0, 5, tf.int64), tf.fill([2], x))


@tf.function
def nested_random(x):
    return x + tf.random.uniform([], 0, 5, tf.int64)


@tf.function
def nested_sum(x):
    return x + 1


def stateless_random(x):
    return tf.random.stateless_uniform([2], seed=tf.stack([x, x]))


@pytest.mark.parametrize(
    "python_function",
    [lambda x: x, with_assert, with_checked_numbers, branch, loop, nested_sum, stateless_random],
)
def test_deterministic(python_function):
    function = function_of(python_function)
    assert is_deterministic(function)
    assert split_deterministic_prefix(function) is None


@pytest.mark.parametrize(
    "python_function",
    [
        lambda x: tf.random.uniform([], 0, 5, tf.int64) + x,
        lambda x: tf.random.uniform([], 0, 5, tf.int64, seed=3) + x,
        random_branch,
        random_loop,
        nested_random,
        lambda x: tf.random.shuffle(tf.fill([3], x)),
        lambda x: tf.cast(tf.timestamp(), tf.int64) + x,
    ],
)
def test_not_deterministic(python_function):
    function = function_of(python_function)
    assert not is_deterministic(function)
    assert not is_order_free(function)


def test_state_outside_the_graph_is_not_deterministic():
    generator = tf.random.Generator.from_seed(1)
    counter = tf.Variable(0, dtype=tf.int64)
    filled_anew = changing_table()
    assert not is_deterministic(function_of(lambda x: generator.uniform([])))
    assert not is_deterministic(function_of(counter.assign_add))
    reading = function_of(lambda x: filled_anew.lookup(tf.cast(x, tf.int32)))
    assert not is_deterministic(reading)
    assert is_order_free(reading)


def _in_a_loop(lookup, x):
    return tf.while_loop(lambda y: y < 0, lambda y: [lookup.lookup(y)], [x])


@pytest.mark.parametrize(
    "use",
    [lambda lookup, x: lookup.lookup(x), in_a_branch, in_a_function, twice, _in_a_loop],
)
def test_a_table_that_never_changes_is_no_state(use):
    lookup = table()
    function = function_of(lambda x: use(lookup, tf.cast(x, tf.int32)))
    assert is_deterministic(function)
    assert not is_stateless(function)  # for TensorFlow it is: it leaves the map on one thread


def test_keras_s_lookup_layers_are_deterministic():
    layer = keras.layers.TextVectorization(output_sequence_length=4)
    layer.adapt(["a b", "b c"])
    assert is_deterministic(function_of(lambda x: layer(tf.strings.as_string(x))))


def test_python_is_recognised():
    for wrapped in (
        lambda x: tf.py_function(lambda v: v, [x], tf.int64),
        lambda x: tf.numpy_function(lambda v: v, [x], tf.int64),
        lambda x: tf.numpy_function(lambda v: v, [x], tf.int64, stateful=False),
        lambda x: tf.cond(x > 1, lambda: tf.numpy_function(lambda v: v, [x], tf.int64), lambda: x),
    ):
        function = function_of(wrapped)
        assert has_python_calls(function)
        assert not is_deterministic(function)
    assert not has_python_calls(function_of(lambda x: x))


@pytest.mark.parametrize(
    ("python_function", "expected"),
    [
        (tf.data.Dataset.range, True),
        (lambda x: tf.data.Dataset.range(x).map(lambda y: y + 1).batch(2), True),
        (lambda x: tf.data.Dataset.range(x).shuffle(3), False),
        (lambda x: tf.data.experimental.CsvDataset(tf.strings.as_string(x), [0.0]), True),
        (lambda x: tf.data.Dataset.range(x).take_while(lambda y: y < 2), True),
        (lambda x: tf.data.Dataset.range(x).scan(x, lambda s, y: (s + y, s)), True),
        (lambda x: tf.data.Dataset.range(x).map(nested_random), False),
        (lambda x: tf.data.Dataset.random(seed=1), False),
        (
            lambda x: tf.data.Dataset.range(x).map(
                lambda y: y, num_parallel_calls=2, deterministic=False
            ),
            False,
        ),
    ],
)
def test_datasets_made_inside_a_function(python_function, expected):
    data = tf.data.Dataset.range(4).flat_map(python_function)
    assert is_deterministic(read_pipeline(data).root.functions[0]) is expected


def test_a_table_that_may_be_filled_is_read_like_a_variable():
    words = tf.lookup.KeyValueTensorInitializer(["cat", "dog"], [1, 2])
    static = tf.lookup.StaticHashTable(words, 0)
    mutable = tf.lookup.experimental.MutableHashTable(tf.string, tf.int32, 0)
    data = tf.data.Dataset.from_tensor_slices(["cat", "cow"])
    for each, changes in ((static, False), (mutable, True)):
        (function,) = read_pipeline(data.map(each.lookup)).root.functions
        assert is_order_free(function)
        assert has_variable_reads(function) is changes
