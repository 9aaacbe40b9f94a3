"""Predict ratings from rows that a Python generator picks out of arrays, one at a time.

All of the data are in memory, and the generator does nothing but name the next row; still every row
takes a call from TensorFlow's threads into the interpreter. People come to it from scripts with
``fit_generator``, or because they want an order of their own; that ``from_generator`` is slow for
small elements is among the oldest complaints about tf.data.
"""

import argparse
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

COUNT = 16_000
BATCH = 200

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=60)
args = parser.parse_args()
keras.utils.set_random_seed(61)
rng = np.random.default_rng(61)

table = np.loadtxt(args.data / "ratings.csv", delimiter=",", skiprows=1, dtype=np.int32)
pairs, stars = table[:COUNT, :2], (table[:COUNT, 2].astype(np.float32) - 3.0) / 2.0


def ratings():
    """Yield every rating once, in another order each time."""
    for row in rng.permutation(COUNT):
        yield pairs[row], stars[row]


signature = (tf.TensorSpec((2,), tf.int32), tf.TensorSpec((), tf.float32))
dataset = tf.data.Dataset.from_generator(ratings, output_signature=signature)  # bottleneck
dataset = dataset.batch(BATCH).prefetch(tf.data.AUTOTUNE)

pair = keras.Input((2,), dtype="int32")
x = keras.layers.Embedding(20_000, 32)(pair)
x = keras.layers.Flatten()(x)
x = keras.layers.Dense(256, activation="relu")(x)
x = keras.layers.Dense(128, activation="relu")(x)
model = keras.Model(pair, keras.layers.Dense(1)(x))
model.compile(keras.optimizers.Adam(1e-3), "mse")

started = time.perf_counter()
history = model.fit(dataset, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {COUNT * args.epochs} samples in {seconds:.2f} s")
