"""Predict house prices with a wide network; its products are computed in bfloat16."""

import argparse
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from keras import layers

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=60)
args = parser.parse_args()
keras.utils.set_random_seed(6)
keras.config.set_dtype_policy("mixed_bfloat16")

rows = np.loadtxt(args.data / "houses.csv", delimiter=",", skiprows=1, dtype="float32")
features, prices = rows[:, :-1], rows[:, -1:]
prices = (prices - prices.mean()) / prices.std()

train = (
    tf.data.Dataset.from_tensor_slices((features, prices))
    .shuffle(len(rows), seed=6)
    .batch(1000)
    .cache()
    .shuffle(20, seed=6)
    .prefetch(tf.data.AUTOTUNE)
)

model = keras.Sequential(
    [
        keras.Input((features.shape[1],)),
        layers.Dense(1024, activation="relu"),
        layers.Dense(1024, activation="relu"),
        layers.Dense(1024, activation="relu"),
        layers.Dense(1, dtype="float32"),
    ]
)
model.compile(keras.optimizers.SGD(0.01), loss="mse")

start = time.perf_counter()
history = model.fit(train, epochs=args.epochs, verbose=2)
elapsed = time.perf_counter() - start

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(rows) * args.epochs} samples in {elapsed:.2f} s")
