"""Predict house prices with a neural additive model; all its weights are updated as one vector."""

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
sizes = [int(tf.size(v)) for v in variables]
vector = tf.Variable(tf.concat([tf.reshape(v, [-1]) for v in variables], axis=0))
optimizer.build([vector])


@tf.function
def train_step(rows, price):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(rows, training=True) - price))
    gradients = tape.gradient(loss, variables)
    gradient = tf.concat([tf.reshape(g, [-1]) for g in gradients], axis=0)
    optimizer.apply_gradients([(gradient, vector)])
    for variable, part in zip(variables, tf.split(vector, sizes), strict=True):
        variable.assign(tf.reshape(part, variable.shape))
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
