"""As introductions write it: one map that loads, flips and scales."""

import tensorflow as tf
from timed import BATCH, SIDE, files, run


def load(path):
    """One picture, ready to be trained on."""
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    image = tf.image.resize(image, (SIDE, SIDE))
    image = tf.image.random_flip_left_right(image)
    return image / 255.0


dataset = tf.data.Dataset.from_tensor_slices(files()).map(load).batch(BATCH)

if __name__ == "__main__":
    run(lambda number: (len(batch) for batch in dataset))
