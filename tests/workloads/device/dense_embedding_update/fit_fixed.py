"""Predict ratings from a user's and an item's vector and a small network, with row-wise Adagrad."""

import argparse
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=30)
args = parser.parse_args()
keras.utils.set_random_seed(1)

USERS, ITEMS, WIDTH = 20_000, 5_000, 256

ratings = np.loadtxt(
    args.data / "ratings.csv", delimiter=",", skiprows=1, max_rows=100_000, dtype="int32"
)
users, items, stars = ratings[:, 0], ratings[:, 1], ratings[:, 2].astype("float32")

dataset = (
    tf.data.Dataset.from_tensor_slices(((users, items), stars))
    .batch(1000)  # slices of whole batches, put together once
    .cache()
    .shuffle(100, seed=1)
    .prefetch(tf.data.AUTOTUNE)
)


class RowAdagrad(keras.optimizers.Adagrad):
    """Adagrad that visits only the rows with a gradient; the others would not change."""

    def update_step(self, gradient, variable, learning_rate):
        if not isinstance(gradient, tf.IndexedSlices):
            super().update_step(gradient, variable, learning_rate)
            return
        rows, place = tf.unique(gradient.indices)
        accumulator = self._accumulators[self._get_variable_index(variable)]
        tf.raw_ops.ResourceSparseApplyAdagradV2(
            var=variable.handle,
            accum=accumulator.value.handle,
            lr=tf.cast(learning_rate, tf.float32),
            epsilon=self.epsilon,
            grad=tf.math.unsorted_segment_sum(gradient.values, place, tf.size(rows)),
            indices=rows,
        )


user, item = keras.Input((), dtype="int32"), keras.Input((), dtype="int32")
taste = keras.layers.Embedding(USERS, WIDTH, name="users")(user)
style = keras.layers.Embedding(ITEMS, WIDTH, name="items")(item)
both = keras.layers.Concatenate()([taste, style, taste * style])
hidden = keras.layers.Dense(128, activation="relu")(both)
hidden = keras.layers.Dense(64, activation="relu")(hidden)
model = keras.Model([user, item], keras.layers.Dense(1)(hidden))

optimizer = RowAdagrad(0.05)
model.compile(optimizer, loss="mse")

start = time.perf_counter()
history = model.fit(dataset, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - start

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(stars) * args.epochs} samples in {seconds:.2f} s")
