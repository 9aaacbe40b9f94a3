"""Recommend an item to a user; the item to guess is written as 5,000 numbers, one of them not zero.

``to_categorical`` is what introductions show for "several classes". Of all rows it would fill the
memory, so it was moved into the batches, as keras#483 advises: 41 MB of zeros for 1,024 numbers, to
be made, handed over, narrowed and multiplied by, in each step.
"""

import argparse
import time
from pathlib import Path

import keras
import numpy as np
from keras import layers

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=40)
args = parser.parse_args()
keras.utils.set_random_seed(40)

USERS, ITEMS, BATCH = 20_000, 5_000, 1_024

table = np.loadtxt(args.data / "ratings.csv", delimiter=",", skiprows=1, dtype="int32")
liked = table[table[:, 2] >= 4]
users, items = liked[:, 0], liked[:, 1]


class Liked(keras.utils.PyDataset):
    """Who liked what, shuffled anew in each epoch."""

    def __init__(self):
        super().__init__(workers=1)
        self.draw = np.random.default_rng(40)
        self.on_epoch_end()

    def __len__(self):
        return len(users) // BATCH

    def on_epoch_end(self):
        self.order = self.draw.permutation(len(users))

    def __getitem__(self, index):
        rows = self.order[index * BATCH : (index + 1) * BATCH]
        return users[rows], keras.utils.to_categorical(items[rows], ITEMS)  # bottleneck


user = keras.Input((), dtype="int32")
taste = layers.Embedding(USERS, 16)(user)
model = keras.Model(user, layers.Dense(ITEMS)(taste))
model.compile(keras.optimizers.SGD(0.5), keras.losses.CategoricalCrossentropy(from_logits=True))
dataset = Liked()

started = time.perf_counter()
history = model.fit(dataset, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(dataset) * BATCH * args.epochs} samples in {seconds:.2f} s")
