"""Predict ratings from a user's and an item's vector and a small network, with Adagrad.

A batch touches a few thousand rows of the two tables. Adagrad leaves the others alone by its very
definition, but the optimizers of Keras 3 write out the sparse gradient as large as the table and
pass over all rows of it, of the accumulators and of the weights in every step:
https://github.com/keras-team/keras/issues/19992.
"""

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

user, item = keras.Input((), dtype="int32"), keras.Input((), dtype="int32")
taste = keras.layers.Embedding(USERS, WIDTH, name="users")(user)  # bottleneck
style = keras.layers.Embedding(ITEMS, WIDTH, name="items")(item)  # bottleneck
both = keras.layers.Concatenate()([taste, style, taste * style])
hidden = keras.layers.Dense(128, activation="relu")(both)
hidden = keras.layers.Dense(64, activation="relu")(hidden)
model = keras.Model([user, item], keras.layers.Dense(1)(hidden))

optimizer = keras.optimizers.Adagrad(0.05)  # bottleneck
model.compile(optimizer, loss="mse")

start = time.perf_counter()
history = model.fit(dataset, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - start

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(stars) * args.epochs} samples in {seconds:.2f} s")
