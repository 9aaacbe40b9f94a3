"""Factorise a table of ratings; Python calls the step for every small batch.

A batch of 128 ratings touches 128 rows of two tables and needs a few thousand multiplications.
Fetching the batch into Python and calling the compiled step takes longer than that. Most home-made
recommenders have this loop; TensorFlow's guide to ``tf.function`` shows how to take the loop over a
dataset into the function.
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
keras.utils.set_random_seed(4)

BATCH, FACTORS = 128, 16

ratings = np.loadtxt(args.data / "ratings.csv", delimiter=",", skiprows=1, dtype=np.int32)
n_users, n_items, _ = (ratings.max(axis=0) + 1).tolist()
mean = ratings[:, 2].mean(dtype=np.float32)

# The rows are mixed once and cut into batches here: an element of the dataset is a whole batch.
np.random.default_rng(4).shuffle(ratings)
ratings = ratings[: len(ratings) // BATCH * BATCH].reshape(-1, BATCH, 3)
users, items, stars = np.moveaxis(ratings, 2, 0)
dataset = (
    tf.data.Dataset.from_tensor_slices((users, items, stars.astype(np.float32)))
    .shuffle(len(ratings), seed=4)
    .prefetch(tf.data.AUTOTUNE)
)


class Factors(keras.Model):
    def __init__(self):
        super().__init__()
        self.user = keras.layers.Embedding(n_users, FACTORS)
        self.item = keras.layers.Embedding(n_items, FACTORS)

    def call(self, inputs):
        user, item = inputs
        return mean + tf.reduce_sum(self.user(user) * self.item(item), axis=-1)


model = Factors()
optimizer = keras.optimizers.SGD(2.0)
loss_sum = tf.Variable(0.0)


@tf.function
def train_step(user, item, stars):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model((user, item)) - stars) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply(gradients, model.trainable_variables)
    loss_sum.assign_add(loss)


def train_epoch():
    for user, item, stars in dataset:
        train_step(user, item, stars)  # bottleneck


started = time.perf_counter()
for epoch in range(args.epochs):
    loss_sum.assign(0.0)
    train_epoch()
    mean_loss = loss_sum.numpy() / len(ratings)
    print(f"epoch {epoch + 1}: loss {mean_loss:.4f}")
seconds = time.perf_counter() - started

print(f"loss {mean_loss:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(ratings) * BATCH * args.epochs} samples in {seconds:.2f} s")
