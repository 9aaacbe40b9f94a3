"""A table of text lines, shuffled and parsed line by line."""

from pathlib import Path

import tensorflow as tf

BATCH, BUFFER = 256, 20_000


def parse(line):
    """Two ids and a rating; works on one line and on many alike."""
    user, item, stars = tf.io.decode_csv(line, [0, 0, 0.0])
    return {"user": user, "item": item}, stars / 5.0


def _lines(data):
    return tf.data.TextLineDataset(str(Path(data) / "ratings.csv")).skip(1)


def naive(data):
    """A function call for each line."""
    return _lines(data).map(parse).shuffle(BUFFER, seed=1).batch(BATCH)


def hand_tuned(data):
    """Lines are kept and shuffled as text, and parsed a batch at a time."""
    lines = _lines(data).cache().shuffle(BUFFER, seed=1).batch(BATCH)
    return lines.map(parse, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)
