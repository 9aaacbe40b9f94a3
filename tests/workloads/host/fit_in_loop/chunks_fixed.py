"""Predict house prices; one call of ``fit`` sees the table and all epochs."""

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
keras.utils.set_random_seed(14)

table = np.loadtxt(args.data / "houses.csv", delimiter=",", skiprows=1, dtype=np.float32)
np.random.default_rng(14).shuffle(table)

model = keras.Sequential(
    [
        keras.Input((table.shape[1] - 1,)),
        layers.Dense(640, activation="tanh"),
        layers.Dense(640, activation="tanh"),
        layers.Dense(320, activation="tanh"),
        layers.Dense(1),
    ]
)
model.compile(optimizer=keras.optimizers.SGD(1e-3, momentum=0.9), loss="mse")

started = time.perf_counter()
history = model.fit(table[:, :-1], table[:, -1:], batch_size=250, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.3f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(table) * args.epochs} samples in {seconds:.2f} s")
