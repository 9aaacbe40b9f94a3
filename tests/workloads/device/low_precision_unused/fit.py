"""Predict house prices with a wide network, in float32 throughout.

Nearly all of a step is the product of large matrices, for which this kind of processor has
bfloat16 instructions (AVX512-BF16, AMX), as GPUs have tensor cores. Keras computes in float32
unless it is told otherwise, and mixed precision passes for a GPU's business; Keras' guide to it
speaks of GPUs and TPUs only.
"""

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
        layers.Dense(1024, activation="relu"),  # bottleneck
        layers.Dense(1024, activation="relu"),  # bottleneck
        layers.Dense(1024, activation="relu"),  # bottleneck
        layers.Dense(1),
    ]
)
model.compile(keras.optimizers.SGD(0.01), loss="mse")

start = time.perf_counter()
history = model.fit(train, epochs=args.epochs, verbose=2)
elapsed = time.perf_counter() - start

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(rows) * args.epochs} samples in {elapsed:.2f} s")
