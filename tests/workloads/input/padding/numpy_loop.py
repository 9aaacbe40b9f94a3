"""Guess the last rating of a user from what was rated before; one busy account sets the length.

``pad_sequences`` fills every history up to the longest. That one is an account with thousands of
ratings, cut to 192; the others have some 20, and attention costs the square of the length.
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
parser.add_argument("--epochs", type=int, default=40)
args = parser.parse_args()
keras.utils.set_random_seed(62)
draw = np.random.default_rng(62)

ITEMS, BATCH, LONGEST, USERS = 5_000, 128, 192, 2_048

table = np.loadtxt(args.data / "ratings.csv", delimiter=",", skiprows=1, dtype="int32")
table = table[np.argsort(table[:, 0], kind="stable")]
starts = np.unique(table[:, 0], return_index=True)[1][1:]
users = [rows for rows in np.split(table, starts) if len(rows) > 8]
users = [users[i] for i in draw.permutation(len(users) - 1)[: USERS - 1]] + users[-1:]
# An item and its stars are one symbol; 0 is the padding.
histories = [(rows[:-1, 1] * 5 + rows[:-1, 2])[-LONGEST:] for rows in users]
stars = np.array([rows[-1, 2] for rows in users], "float32")


def epoch():
    order = draw.permutation(len(histories))
    for start in range(0, len(order), BATCH):
        rows = order[start : start + BATCH]
        chosen = [histories[row] for row in rows]
        yield keras.utils.pad_sequences(chosen, LONGEST, padding="post"), stars[rows]  # bottleneck


class Reader(keras.Model):
    def __init__(self, width=32):
        super().__init__()
        self.embed = layers.Embedding(5 * ITEMS + 6, width)
        self.attend = layers.MultiHeadAttention(2, width)
        self.think = layers.Dense(4 * width, activation="gelu")
        self.guess = layers.Dense(1)

    def call(self, symbols):
        real = symbols != 0
        x = self.embed(symbols)
        x = x + self.attend(x, x, attention_mask=real[:, None, :])
        weight = tf.cast(real, x.dtype)[..., None]
        x = tf.reduce_sum(self.think(x) * weight, axis=1) / tf.reduce_sum(weight, axis=1)
        return self.guess(x)[:, 0]


model = Reader()
model.build((None, None))
optimizer = keras.optimizers.SGD(0.05)


@tf.function(input_signature=[tf.TensorSpec((None, None), tf.int32), tf.TensorSpec((None,))])
def train_step(symbols, targets):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(symbols) - targets) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply(gradients, model.trainable_variables)
    return loss


started = time.perf_counter()
for number in range(args.epochs):
    losses = [train_step(*batch) for batch in epoch()]
    print(f"epoch {number + 1}: loss {float(tf.reduce_mean(losses)):.4f}")
last = float(tf.reduce_mean(losses))
seconds = time.perf_counter() - started

print(f"loss {last:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(histories) * args.epochs} samples in {seconds:.2f} s")
