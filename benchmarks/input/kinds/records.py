"""Pictures in TFRecord files, parsed one by one."""

from pathlib import Path

import tensorflow as tf

SIDE, BATCH = 160, 32
FEATURES = {
    "image": tf.io.FixedLenFeature([], tf.string),
    "label": tf.io.FixedLenFeature([], tf.int64),
}


def load(record):
    """One example: the picture, and what is on it."""
    example = tf.io.parse_single_example(record, FEATURES)
    image = tf.io.decode_jpeg(example["image"], channels=3)
    return tf.image.resize(image, (SIDE, SIDE)) / 255.0, example["label"]


def _shards(data):
    files = sorted(str(path) for path in (Path(data) / "records").glob("*.tfrecord"))
    return tf.data.Dataset.from_tensor_slices(files)


def naive(data):
    """Files in turn, records in turn."""
    records = _shards(data).interleave(tf.data.TFRecordDataset, cycle_length=4)
    return records.map(load).batch(BATCH)


def hand_tuned(data):
    """Files and records in parallel; nothing is drawn, so batches are kept as they are."""
    records = _shards(data).interleave(
        tf.data.TFRecordDataset,
        cycle_length=4,
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )
    batches = records.map(load, num_parallel_calls=tf.data.AUTOTUNE).batch(BATCH)
    return batches.cache().prefetch(tf.data.AUTOTUNE)
