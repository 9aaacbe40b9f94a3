"""Predict house prices with a small transformer over the columns, in mixed float16.

The script came from a GPU with its policy and loss scaling. No CPU kernel of TensorFlow computes
in float16: numbers are widened and narrowed one by one, and the step takes twice as long or more.
https://github.com/tensorflow/tensorflow/issues/45441 says so of training and prediction.
"""

import argparse
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=40)
args = parser.parse_args()
keras.utils.set_random_seed(31)
keras.mixed_precision.set_global_policy("mixed_float16")  # bottleneck

WIDTH, BATCH = 48, 250

houses = np.loadtxt(args.data / "houses.csv", delimiter=",", skiprows=1, dtype="float32")
columns, prices = houses[:, :-1], houses[:, -1:]
prices = (prices - prices.mean()) / prices.std()

dataset = (
    tf.data.Dataset.from_tensor_slices((columns, prices))
    .shuffle(len(houses), seed=31)
    .batch(BATCH)
    .cache()
    .shuffle(80, seed=31)
    .prefetch(tf.data.AUTOTUNE)
)


class ColumnTokens(keras.layers.Layer):
    """Each number times a vector of its column: one token for each column."""

    def build(self, shape):
        self.vectors = self.add_weight(shape=(shape[-1], WIDTH), initializer="glorot_uniform")

    def call(self, numbers):
        return numbers[..., None] * self.vectors


numbers = keras.Input((columns.shape[1],))
x = ColumnTokens()(numbers)
x = x + keras.layers.MultiHeadAttention(num_heads=4, key_dim=12)(x, x)
x = keras.layers.LayerNormalization()(x)
x = x + keras.layers.Dense(WIDTH)(keras.layers.Dense(2 * WIDTH, activation="relu")(x))
x = keras.layers.GlobalAveragePooling1D()(x)
model = keras.Model(numbers, keras.layers.Dense(1, dtype="float32")(x))

optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(1e-3))
optimizer.build(model.trainable_variables)


@tf.function
def train_step(columns, prices):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(columns, training=True) - prices))
        scaled = optimizer.scale_loss(loss)
    gradients = tape.gradient(scaled, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


start = time.perf_counter()
for epoch in range(args.epochs):
    for batch, target in dataset:
        loss = train_step(batch, target)
    print(f"epoch {epoch + 1}: loss {float(loss):.4f}")
final = float(loss)
seconds = time.perf_counter() - start

print(f"loss {final:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(houses) * args.epochs} samples in {seconds:.2f} s")
