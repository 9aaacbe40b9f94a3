"""Predict prices of houses from a table.

The products run in bfloat16, which newer processors multiply natively; weights, statistics and the
last layer stay in float32.
"""

import argparse
import time
from pathlib import Path

import keras
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=60)
args = parser.parse_args()
keras.utils.set_random_seed(105)
keras.mixed_precision.set_global_policy("mixed_bfloat16")

table = np.loadtxt(args.data / "houses.csv", delimiter=",", skiprows=1, dtype="float32")
features, price = table[:, :-1], table[:, -1:]
normalise = keras.layers.Normalization(dtype="float32")
normalise.adapt(features)

model = keras.Sequential([keras.Input((24,)), normalise])
for _ in range(2):
    model.add(keras.layers.Dense(1024))
    model.add(keras.layers.BatchNormalization())
    model.add(keras.layers.Activation("relu"))
    model.add(keras.layers.Dropout(0.2))
model.add(keras.layers.Dense(1, dtype="float32"))
model.compile(keras.optimizers.Adam(1e-3), loss="mean_squared_error", metrics=["mae"])

started = time.perf_counter()
history = model.fit(features, price, batch_size=500, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(table) * args.epochs} samples in {seconds:.2f} s")
