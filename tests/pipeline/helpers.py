"""What several tests of the pipeline engine do with datasets."""

from __future__ import annotations

import tensorflow as tf
from tensorflow.python.data.experimental.ops import testing

from uncork.pipeline import Pipeline, element_digests, read


def epochs(dataset, limit=40, passes=2):
    """Digests of some passes."""
    return element_digests(dataset, epochs=passes, max_elements=limit, max_s=20).epochs


def kinds(pipeline: Pipeline):
    return [node.kind for node in pipeline.stages]


def behind_unknown(dataset):
    """The same elements behind a class of TensorFlow's that Uncork does not know."""
    return dataset.apply(testing.sleep(1))


def function_of(python_function, data=None):
    data = tf.data.Dataset.range(4) if data is None else data
    return read(data.map(python_function)).root.functions[0]


def table():
    return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer([1], [2]), 0)


def changing_table():
    return tf.lookup.experimental.MutableHashTable(tf.int32, tf.int32, 0)


def in_a_branch(lookup, x):
    return tf.cond(x > 1, lambda: lookup.lookup(x), lambda: x)


def in_a_function(lookup, x):
    return tf.function(lookup.lookup)(x)


def twice(lookup, x):
    return lookup.lookup(lookup.lookup(x) + 1)
