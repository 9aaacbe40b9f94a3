"""Fit house prices; the allocator keeps what is freed, and hands it out again.

This must be said before any thread asks for memory, and so before TensorFlow is imported.
"""
# ruff: noqa: E402  # the allocator is set before TensorFlow starts its threads

import argparse
import ctypes
import time
from pathlib import Path

libc = ctypes.CDLL(None)
libc.mallopt(-8, 1)  # M_ARENA_MAX
libc.mallopt(-4, 0)  # M_MMAP_MAX
libc.mallopt(-1, -1)  # M_TRIM_THRESHOLD

import keras
import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=60)
args = parser.parse_args()
keras.utils.set_random_seed(44)

PASSES, BATCH = 5, 10_000
rows = np.loadtxt(args.data / "houses.csv", delimiter=",", skiprows=1, dtype="float32")
features, prices = rows[:, :-1], rows[:, -1:]
prices = (prices - prices.mean()) / prices.std()
dataset = (
    tf.data.Dataset.from_tensor_slices((features, prices))
    .batch(BATCH)
    .cache()
    .repeat(PASSES)
    .prefetch(tf.data.AUTOTUNE)
)

model = keras.Sequential(
    [
        keras.Input((features.shape[1],)),
        keras.layers.Dense(1024, activation="silu"),
        keras.layers.Dense(1),
    ]
)
model.compile(keras.optimizers.SGD(0.05, momentum=0.9), loss="huber")

started = time.perf_counter()
history = model.fit(dataset, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(rows) * PASSES * args.epochs} samples in {seconds:.2f} s")
