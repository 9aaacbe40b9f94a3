"""Recommend items by sampled softmax; a guard against NaN reads the loss on the host every step.

NumPy draws the negatives on the host. After one training that diverged, the loop looks at each loss
before it goes on. To look, it must wait for the GPU, and so the host draws nothing while the step
runs, and the GPU computes nothing while the host draws.
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
keras.utils.set_random_seed(19)
draw = np.random.default_rng(19)

BATCH, NEGATIVES, WIDTH, TOWER = 1_000, 95, 256, (16_384, 16_384)

ratings = np.loadtxt(args.data / "ratings.csv", delimiter=",", skiprows=1, dtype=np.int32)
n_users, n_items, _ = (ratings.max(axis=0) + 1).tolist()
seen = np.zeros((n_users, n_items), bool)
seen[ratings[:, 0], ratings[:, 1]] = True
popularity = np.bincount(ratings[:, 1]) ** 0.75
popularity /= popularity.sum()
liked = ratings[ratings[:, 2] >= 4]
liked = draw.permutation(liked)[: 50 * BATCH, :2]


def candidates(users, items):
    """The liked item, then negatives; those that the user knows are drawn once more."""
    negatives = draw.choice(n_items, (len(users), NEGATIVES), p=popularity)
    known = seen[users[:, None], negatives]
    negatives[known] = draw.choice(n_items, known.sum(), p=popularity)
    return np.column_stack([items, negatives]).astype(np.int32)


class Ranker(keras.Model):
    def __init__(self):
        super().__init__()
        self.user = keras.layers.Embedding(n_users, WIDTH)
        self.item = keras.layers.Embedding(n_items, WIDTH)
        self.tower = keras.Sequential([keras.layers.Dense(units, "relu") for units in TOWER])
        self.tower.add(keras.layers.Dense(WIDTH))

    def call(self, inputs):
        users, items = inputs
        return tf.einsum("uw,unw->un", self.tower(self.user(users)), self.item(items))


model = Ranker()
optimizer = keras.optimizers.SGD(0.5)


@tf.function
def train_step(users, items):
    with tf.GradientTape() as tape:
        loss = -tf.reduce_mean(tf.nn.log_softmax(model((users, items)))[:, 0])
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply(gradients, model.trainable_variables)
    return loss


started = time.perf_counter()
for epoch in range(args.epochs):
    draw.shuffle(liked)
    for users, items in liked.reshape(-1, BATCH, 2).transpose(0, 2, 1):
        loss = train_step(tf.constant(users), tf.constant(candidates(users, items)))
        if not np.isfinite(loss.numpy()):  # bottleneck
            raise SystemExit("the loss is not finite")
    final_loss = float(loss)
    print(f"epoch {epoch + 1}: loss {final_loss:.4f}")
seconds = time.perf_counter() - started

print(f"loss {final_loss:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(liked) * args.epochs} samples in {seconds:.2f} s")
