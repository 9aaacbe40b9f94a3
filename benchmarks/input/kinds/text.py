"""Reviews: split into words, looked up in a table, filled up to the longest of a batch."""

from pathlib import Path

import tensorflow as tf

BATCH, WORDS = 64, 5_000


def _table():
    words = tf.constant([f"word{n}" for n in range(WORDS)])
    numbers = tf.range(1, WORDS + 1, dtype=tf.int64)
    found = tf.lookup.KeyValueTensorInitializer(words, numbers)
    return tf.lookup.StaticHashTable(found, default_value=0)


def _lines(data):
    return tf.data.TextLineDataset(str(Path(data) / "reviews.tsv"))


def naive(data):
    """A function call for each review."""
    table = _table()

    def load(line):
        label, text = tf.unstack(tf.strings.split(line, "\t"), 2)
        return table.lookup(tf.strings.split(text)), tf.strings.to_number(label, tf.int32)

    return _lines(data).map(load).padded_batch(BATCH)


def hand_tuned(data):
    """A batch of reviews at a time, kept as numbers."""
    table = _table()

    def load(lines):
        label, text = tf.unstack(tf.strings.split(lines, "\t").to_tensor(), 2, axis=1)
        numbers = tf.ragged.map_flat_values(table.lookup, tf.strings.split(text))
        return numbers.to_tensor(), tf.strings.to_number(label, tf.int32)

    batches = _lines(data).batch(BATCH).map(load, num_parallel_calls=tf.data.AUTOTUNE)
    return batches.cache().prefetch(tf.data.AUTOTUNE)
