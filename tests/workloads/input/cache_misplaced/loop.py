"""Learn to enlarge photographs; the cache holds the compressed files, not the pictures.

``cache`` right behind the source saves reading bytes that the operating system keeps in memory
anyway; decoding and shrinking, where the time goes, come after it. People put it there because a
cache is said to be for slow disks.
"""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf

SMALL = 48
LARGE = 144

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=60)
args = parser.parse_args()
keras.utils.set_random_seed(161)


def pair(record):
    """Return the photograph in two sizes."""
    example = tf.io.parse_single_example(record, {"image": tf.io.FixedLenFeature([], tf.string)})
    image = tf.io.decode_jpeg(example["image"], channels=3)
    sizes = []
    for side in (SMALL, LARGE):
        shrunk = tf.image.resize(image, (side, side), method="lanczos3", antialias=True)
        sizes.append(tf.cast(tf.clip_by_value(shrunk, 0.0, 255.0), tf.uint8))
    return tuple(sizes)


shards = sorted(str(p) for p in (args.data / "records").glob("*.tfrecord"))
dataset = (
    tf.data.TFRecordDataset(shards)
    .cache()  # bottleneck
    .shuffle(480, seed=162)
    .map(pair, num_parallel_calls=tf.data.AUTOTUNE)
    .batch(16)
    .prefetch(tf.data.AUTOTUNE)
)


class Enlarger(keras.Model):
    """Predict what is missing in the plainly enlarged picture."""

    def __init__(self):
        super().__init__()
        self.look = keras.layers.Conv2D(12, 5, padding="same", activation="relu")
        self.think = keras.layers.Conv2D(12, 3, padding="same", activation="relu")
        self.draw = keras.layers.Conv2D(27, 3, padding="same")

    def call(self, small):
        return tf.nn.depth_to_space(self.draw(self.think(self.look(small))), 3)


model = Enlarger()
optimizer = keras.optimizers.Adam(1e-3)


@tf.function
def train_step(small, large):
    small, large = tf.cast(small, tf.float32) / 255.0, tf.cast(large, tf.float32) / 255.0
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.abs(model(small, training=True) - large))
    variables = model.trainable_variables
    optimizer.apply(tape.gradient(loss, variables), variables)
    return loss


samples = 0
started = time.perf_counter()
for epoch in range(args.epochs):
    for small, large in dataset:
        loss = train_step(small, large)
        samples += len(small)
    print(f"epoch {epoch + 1}: loss {float(loss):.4f}")
seconds = time.perf_counter() - started

print(f"loss {float(loss):.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {samples} samples in {seconds:.2f} s")
