"""Recommend items with an autoencoder over users' ratings; every step copies the whole matrix.

``train_step`` takes the ratings as a NumPy array and the rows to use. A ``tf.function`` turns NumPy
arguments into tensors at each call, so 80 MB are copied to look at 2.5 MB of them. The same comes
from ``tf.gather(array, rows)`` outside a graph; users ask about it in tensorflow#53224.
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
keras.utils.set_random_seed(21)
draw = np.random.default_rng(21)

USERS, ITEMS, BATCH = 4_000, 5_000, 128

table = np.loadtxt(args.data / "ratings.csv", delimiter=",", skiprows=1, dtype="int32")
busiest = np.argsort(-np.bincount(table[:, 0], minlength=20_000), kind="stable")[:USERS]
row_of = np.full(20_000, -1)
row_of[busiest] = np.arange(USERS)
table = table[row_of[table[:, 0]] >= 0]
ratings = np.zeros((USERS, ITEMS), "float32")
ratings[row_of[table[:, 0]], table[:, 1]] = table[:, 2] - 2.5


class Autoencoder(keras.Model):
    def __init__(self):
        super().__init__()
        self.taste = keras.layers.Dense(128, activation="tanh")
        self.stars = keras.layers.Dense(ITEMS)

    def call(self, ratings):
        return self.stars(self.taste(ratings))


model = Autoencoder()
model.build((None, ITEMS))
optimizer = keras.optimizers.SGD(0.2, momentum=0.9)


@tf.function
def train_step(ratings, rows):
    chosen = tf.gather(ratings, rows)
    known = tf.cast(chosen != 0, tf.float32)
    with tf.GradientTape() as tape:
        error = known * (model(chosen) - chosen)
        loss = tf.reduce_sum(error**2) / tf.reduce_sum(known)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply(gradients, model.trainable_variables)
    return loss


started = time.perf_counter()
for epoch in range(args.epochs):
    order = draw.permutation(USERS).astype("int32")
    losses = []
    for start in range(0, USERS - BATCH + 1, BATCH):
        losses.append(train_step(ratings, order[start : start + BATCH]))  # bottleneck
    print(f"epoch {epoch + 1}: loss {float(tf.reduce_mean(losses)):.4f}")
last = float(tf.reduce_mean(losses))
seconds = time.perf_counter() - started

print(f"loss {last:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {USERS // BATCH * BATCH * args.epochs} samples in {seconds:.2f} s")
