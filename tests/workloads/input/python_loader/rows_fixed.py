"""Predict ratings from rows that TensorFlow cuts out of arrays, in another order each time."""

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

table = np.loadtxt(args.data / "ratings.csv", delimiter=",", skiprows=1, dtype=np.int32)
pairs, stars = table[:COUNT, :2], (table[:COUNT, 2].astype(np.float32) - 3.0) / 2.0

dataset = tf.data.Dataset.from_tensor_slices((pairs, stars))
dataset = dataset.shuffle(COUNT, seed=62).batch(BATCH).prefetch(tf.data.AUTOTUNE)

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
