"""Predict house prices with a very deep, narrow residual network; its weights are stacked."""

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


class Blocks(keras.layers.Layer):
    """The whole residual path; the gates start near zero (ReZero)."""

    def build(self, shape):
        spread = keras.initializers.TruncatedNormal(stddev=1.137 * (2 / WIDTH) ** 0.5)  # he_normal
        self.kernels = self.add_weight(shape=(DEPTH, WIDTH, WIDTH), initializer=spread)
        self.biases = self.add_weight(shape=(DEPTH, WIDTH), initializer="zeros")
        self.gates = self.add_weight(shape=(DEPTH,), initializer=keras.initializers.Constant(0.02))

    def call(self, x):
        weights = [tf.unstack(w) for w in (self.kernels, self.biases, self.gates)]
        for kernel, bias, gate in zip(*weights, strict=True):
            x = x + gate * tf.nn.relu(tf.nn.bias_add(tf.matmul(x, kernel), bias))
        return x


inputs = keras.Input((features.shape[1],))
x = keras.layers.Dense(WIDTH)(inputs)
x = Blocks()(x)
model = keras.Model(inputs, keras.layers.Dense(1)(x))
model.compile(keras.optimizers.Adam(1e-3), loss="mse")

start = time.perf_counter()
history = model.fit(dataset, steps_per_epoch=100, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - start

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(table) * args.epochs} samples in {seconds:.2f} s")
