"""Predict house prices with a very deep, narrow residual network of Dense layers.

Each of the 40 blocks has a kernel, a bias and a gate of its own: 124 small variables, and Adam
runs its fifteen operations for every one of them, one after the other, long after the gradients
are there. Stacked variables hold the same numbers. Slow updates of models with many variables:
https://github.com/keras-team/keras/issues/17668.
"""

import argparse
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=50)
args = parser.parse_args()
keras.utils.set_random_seed(12)

DEPTH, WIDTH = 40, 48

table = np.loadtxt(args.data / "houses.csv", delimiter=",", skiprows=1, dtype="float32")
features, prices = table[:, :-1], table[:, -1:]
prices = (prices - prices.mean()) / prices.std()

dataset = (
    tf.data.Dataset.from_tensor_slices((features, prices))
    .shuffle(len(table), seed=12)
    .batch(200)
    .cache()
    .shuffle(100, seed=12)
    .repeat()
    .prefetch(tf.data.AUTOTUNE)
)


class Block(keras.layers.Layer):
    """One step of the residual path; the gate starts near zero (ReZero)."""

    def build(self, shape):
        self.kernel = self.add_weight(shape=(WIDTH, WIDTH), initializer="he_normal")
        self.bias = self.add_weight(shape=(WIDTH,), initializer="zeros")
        self.gate = self.add_weight(shape=(), initializer=keras.initializers.Constant(0.02))

    def call(self, x):
        return x + self.gate * tf.nn.relu(tf.nn.bias_add(tf.matmul(x, self.kernel), self.bias))


inputs = keras.Input((features.shape[1],))
x = keras.layers.Dense(WIDTH)(inputs)
for _ in range(DEPTH):
    x = Block()(x)
model = keras.Model(inputs, keras.layers.Dense(1)(x))
model.compile(keras.optimizers.Adam(1e-3), loss="mse")  # bottleneck

start = time.perf_counter()
history = model.fit(dataset, steps_per_epoch=100, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - start

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(table) * args.epochs} samples in {seconds:.2f} s")
