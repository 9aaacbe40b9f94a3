"""Fit house prices in batches of 10,000 rows, whose activations take 41 MB a layer.

The rows lie in memory, the step is compiled and keeps the cores busy. But glibc, whose allocator
TensorFlow asks for the memory of every tensor, gives pieces of this size back to the operating
system as soon as they are freed; in the next step they are made anew, filled with zeros page by
page. Half of the CPU time is the kernel's. TensorFlow's own advice for CPUs is another allocator
(tcmalloc, by LD_PRELOAD), which hardly anybody has heard of.
"""

import argparse
import time
from pathlib import Path

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
history = model.fit(dataset, epochs=args.epochs, verbose=2)  # bottleneck
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(rows) * PASSES * args.epochs} samples in {seconds:.2f} s")
