"""Predict prices of houses on two devices, sixteen rows on each.

``batch`` is the global batch under a strategy: two devices halve what was little already, and each
step pays for sending the work out and adding the gradients up. Two logical CPUs stand in for two
GPUs, where the same script loses to one of them; "MirroredStrategy compared to OneDeviceStrategy
slower" (tensorflow/tensorflow#35095) is the usual report. The expert gives each replica enough to
do and scales the learning rate with it.
"""

import argparse
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

BATCH = 32  # bottleneck
RATE = 1e-4

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=60)
args = parser.parse_args()
keras.utils.set_random_seed(20)

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])

table = np.loadtxt(args.data / "houses.csv", delimiter=",", skiprows=1, dtype="float32")[:8000]
dataset = (
    tf.data.Dataset.from_tensor_slices((table[:, :-1], table[:, -1:]))
    .shuffle(len(table), seed=1)
    .batch(BATCH)
    .prefetch(tf.data.AUTOTUNE)
)

with strategy.scope():
    model = keras.Sequential(
        [
            keras.Input((24,)),
            keras.layers.Dense(256, activation="relu"),
            keras.layers.Dense(256, activation="relu"),
            keras.layers.Dense(256, activation="relu"),
            keras.layers.Dense(1),
        ]
    )
    model.compile(keras.optimizers.Adam(RATE), loss="mean_squared_error")

started = time.perf_counter()
history = model.fit(dataset, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(table) * args.epochs} samples in {seconds:.2f} s")
