"""Predict house prices with a neural additive model: one small network for each column.

The prediction stays explainable, as it is a sum of 24 curves. But 24 networks of three layers are
144 little kernels and biases, and AdamW with clipping visits them one by one in every step; that
takes longer than the network itself. Additive models are written like this everywhere; slow
updates of many variables: https://github.com/tensorflow/tensorflow/issues/59961.
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
keras.utils.set_random_seed(8)

table = np.loadtxt(args.data / "houses.csv", delimiter=",", skiprows=1, dtype="float32")
columns, price = table[:, :-1], table[:, -1:]
price = (price - price.mean()) / price.std()

dataset = (
    tf.data.Dataset.from_tensor_slices((columns, price))
    .shuffle(len(table), seed=8)
    .batch(250)
    .cache()
    .shuffle(80, seed=8)
    .prefetch(tf.data.AUTOTUNE)
)


class AdditiveModel(keras.Model):
    """The sum of one curve for each column."""

    def __init__(self, columns):
        super().__init__()
        self.curves = [
            keras.Sequential(
                [
                    keras.layers.Dense(64, activation="relu"),
                    keras.layers.Dense(64, activation="relu"),
                    keras.layers.Dense(1),
                ]
            )
            for _ in range(columns)
        ]

    def call(self, rows):
        parts = tf.split(rows, len(self.curves), axis=1)
        return tf.add_n([curve(part) for curve, part in zip(self.curves, parts, strict=True)])


model = AdditiveModel(columns.shape[1])
model(columns[:1])
variables = model.trainable_variables
optimizer = keras.optimizers.AdamW(1e-3, global_clipnorm=1.0)
optimizer.build(variables)


@tf.function
def train_step(rows, price):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(rows, training=True) - price))
    gradients = tape.gradient(loss, variables)
    optimizer.apply_gradients(zip(gradients, variables, strict=True))  # bottleneck
    return loss


start = time.perf_counter()
for epoch in range(args.epochs):
    for rows, target in dataset:
        loss = train_step(rows, target)
    print(f"epoch {epoch + 1}: loss {float(loss):.4f}")
final = float(loss)
seconds = time.perf_counter() - start

print(f"loss {final:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(table) * args.epochs} samples in {seconds:.2f} s")
