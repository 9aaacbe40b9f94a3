"""Predict house prices; the table is fed to ``fit`` in chunks of a thousand rows.

The chunks come from a time when the table did not fit into memory, and the loop around ``fit``
outlived it. Every ``fit`` builds a pipeline and an iterator, traces its functions over the data and
starts callbacks, for four steps of training. Calls of ``fit`` in loops are among the most frequent
findings in slow Keras scripts (Keras issue 13710, TensorFlow issue 73864).
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
for epoch in range(args.epochs):
    losses = []
    for chunk in np.split(table, 20):
        history = model.fit(chunk[:, :-1], chunk[:, -1:], batch_size=250, verbose=0)  # bottleneck
        losses += history.history["loss"]
    print(f"epoch {epoch + 1}: loss {np.mean(losses):.3f}")
seconds = time.perf_counter() - started

print(f"loss {np.mean(losses):.3f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(table) * args.epochs} samples in {seconds:.2f} s")
