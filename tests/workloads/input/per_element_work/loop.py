"""Predict ratings from crossed features, which are made for one rating at a time.

Each rating passes through the map alone: a dozen tiny operations whose start costs more than what
they do. PRESTO (SIGMOD 2022) found samples this small bound by scheduling, not by work; the tf.data
guide says to batch first and map then.
"""

import argparse
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

COUNT = 50_000
BATCH = 500
CROSSES = 20_000

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=60)
args = parser.parse_args()
keras.utils.set_random_seed(101)

table = np.loadtxt(args.data / "ratings.csv", delimiter=",", skiprows=1, dtype=np.int32)
users, items, stars = table[:COUNT].T.copy()


def features(user, item, stars):
    """Name the pair of user group and item by a hash; bring the stars to -1 ... 1."""
    pair = tf.strings.join([tf.strings.as_string(user % 100), tf.strings.as_string(item)], "x")
    cross = tf.strings.to_hash_bucket_fast(pair, CROSSES)
    return {"user": user, "item": item, "cross": cross}, (tf.cast(stars, tf.float32) - 3.0) / 2.0


dataset = (
    tf.data.Dataset.from_tensor_slices((users, items, stars))
    .shuffle(COUNT, seed=102)
    .map(features, num_parallel_calls=tf.data.AUTOTUNE)  # bottleneck
    .batch(BATCH)
    .prefetch(tf.data.AUTOTUNE)
)


class Recommender(keras.Model):
    def __init__(self):
        super().__init__()
        self.user = keras.layers.Embedding(20_000, 48)
        self.item = keras.layers.Embedding(5_000, 48)
        self.cross = keras.layers.Embedding(CROSSES, 32)
        self.deep = [keras.layers.Dense(n, activation="relu") for n in (512, 512, 128)]
        self.stars = keras.layers.Dense(1)

    def call(self, x):
        x = [self.user(x["user"]), self.item(x["item"]), self.cross(x["cross"])]
        x = tf.concat(x, axis=-1)
        for layer in self.deep:
            x = layer(x)
        return tf.squeeze(self.stars(x), -1)


model = Recommender()
optimizer = keras.optimizers.SGD(0.1)


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
    variables = model.trainable_variables
    optimizer.apply(tape.gradient(loss, variables), variables)
    return loss


started = time.perf_counter()
for epoch in range(args.epochs):
    for x, y in dataset:
        loss = train_step(x, y)
    print(f"epoch {epoch + 1}: loss {float(loss):.4f}")
seconds = time.perf_counter() - started

print(f"loss {float(loss):.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {COUNT * args.epochs} samples in {seconds:.2f} s")
