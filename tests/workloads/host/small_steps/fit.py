"""Predict house prices with a small network; a step computes less than its call costs.

Sixteen rows through three narrow layers are microseconds of arithmetic. Around them ``fit`` calls
a function, advances an iterator and turns the logs into numbers, once for every step. This is the
usual shape of Keras on tables; "1 ms per step whatever I do" and a GPU slower than the CPU are its
symptoms. ``steps_per_execution`` was made for it.
"""

import argparse
import time
from pathlib import Path

import keras
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=50)
args = parser.parse_args()
keras.utils.set_random_seed(0)

table = np.loadtxt(args.data / "houses.csv", delimiter=",", skiprows=1, dtype=np.float32)
x, y = table[:, :-1], table[:, -1]

model = keras.Sequential(
    [
        keras.Input((x.shape[1],)),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(32, activation="relu"),
        keras.layers.Dense(1),
    ]
)
model.compile(optimizer="adam", loss="mse")  # bottleneck

started = time.perf_counter()
history = model.fit(x, y, batch_size=16, epochs=args.epochs, verbose=2)  # bottleneck
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(x) * args.epochs} samples in {seconds:.2f} s")
