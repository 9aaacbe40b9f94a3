"""Predict house prices with a residual network; Python starts every single operation.

``run_eagerly=True`` went into ``compile`` to step through a layer with a debugger, and stayed when
the bug was found. Nothing breaks, so nobody notices: each layer, each gradient and each part of
AdamW's update is then dispatched on its own, in every step. Keras documents the argument as one for
debugging; USGS-R/river-dl (pull request 109) found it in their training at a third of the speed.
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
keras.utils.set_random_seed(0)

table = np.loadtxt(args.data / "houses.csv", delimiter=",", skiprows=1, dtype="float32")
features, prices = table[:, :-1], table[:, -1:]

inputs = keras.Input((features.shape[1],))
x = layers.Dense(128)(inputs)
for _ in range(2):
    y = layers.LayerNormalization()(x)
    y = layers.Dense(256, activation="relu")(y)
    y = layers.Dense(128)(y)
    x = layers.add([x, y])
outputs = layers.Dense(1)(layers.LayerNormalization()(x))
model = keras.Model(inputs, outputs)

model.compile(keras.optimizers.AdamW(5e-4), "mse", run_eagerly=True)  # bottleneck

started = time.perf_counter()
history = model.fit(features, prices, batch_size=1_000, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(features) * args.epochs} samples in {seconds:.2f} s")
