"""Predict ratings in steps far below a millisecond, of which each call to the graph runs a hundred.

The batches are cut once and change places from epoch to epoch; XLA makes one kernel of the many
small ones.
"""

import argparse
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from keras import layers

BATCH = 50

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=60)
args = parser.parse_args()
keras.utils.set_random_seed(115)

ratings = np.loadtxt(args.data / "ratings.csv", delimiter=",", skiprows=1, dtype="int32")
cut = np.random.default_rng(1).permutation(ratings).reshape(-1, BATCH, 3)
stars = cut[:, :, 2:].astype("float32")
dataset = tf.data.Dataset.from_tensor_slices(((cut[:, :, 0], cut[:, :, 1]), stars))
dataset = dataset.shuffle(len(cut), seed=1).prefetch(tf.data.AUTOTUNE)

user = keras.Input((), dtype="int32")
item = keras.Input((), dtype="int32")
x = layers.Concatenate()([layers.Embedding(20_000, 16)(user), layers.Embedding(5000, 16)(item)])
x = layers.Dense(64, activation="relu")(x)
x = layers.Dense(32, activation="relu")(x)
model = keras.Model((user, item), layers.Dense(1)(x))
model.compile(
    optimizer=keras.optimizers.SGD(0.05),
    loss="mean_squared_error",
    steps_per_execution=100,
    jit_compile=True,
)

started = time.perf_counter()
history = model.fit(dataset, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(ratings) * args.epochs} samples in {seconds:.2f} s")
