"""Predict ratings from two embeddings and a small tower.

Plain SGD touches only the rows that a batch names; the batch is large enough to fill the cores.
"""

import argparse
import time
from pathlib import Path

import keras
import numpy as np
from keras import layers

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=60)
args = parser.parse_args()
keras.utils.set_random_seed(107)
keras.mixed_precision.set_global_policy("mixed_bfloat16")

ratings = np.loadtxt(args.data / "ratings.csv", delimiter=",", skiprows=1, dtype="int32")
users, items, stars = ratings[:, 0], ratings[:, 1], ratings[:, 2].astype("float32")

user = keras.Input((), dtype="int32")
item = keras.Input((), dtype="int32")
x = layers.Concatenate()([layers.Embedding(20_000, 64)(user), layers.Embedding(5000, 64)(item)])
x = layers.Dense(512, activation="relu")(x)
x = layers.Dense(256, activation="relu")(x)
model = keras.Model((user, item), layers.Dense(1, dtype="float32")(x))
model.compile(keras.optimizers.SGD(0.05), loss="mean_squared_error")

started = time.perf_counter()
history = model.fit((users, items), stars, batch_size=4000, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(ratings) * args.epochs} samples in {seconds:.2f} s")
