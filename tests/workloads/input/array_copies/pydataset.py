"""Predict the price of houses; every batch standardises the whole table to use 320 rows of it.

``__getitem__`` subtracts the mean from the table and divides it, then picks its rows: two copies
of 52 MB for a batch of 0.8 MB. It reads well, it passed every test on a hundred houses, and NumPy
never says what it copies. Whole-array copies are the fourth most frequent group among users' cases.
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
keras.utils.set_random_seed(20)

table = np.loadtxt(args.data / "houses.csv", delimiter=",", skiprows=1)
table, prices = table[:, :-1], table[:, -1]
first, second = np.triu_indices(table.shape[1])
features = np.hstack([table, table[:, first] * table[:, second]])  # and all products of two


class Houses(keras.utils.PyDataset):
    """Shuffled batches of standardised features."""

    def __init__(self, features, prices, batch=320):
        super().__init__(workers=1)
        self.features, self.prices, self.batch = features, prices, batch
        self.mean, self.std = features.mean(axis=0), features.std(axis=0)
        self.draw = np.random.default_rng(20)
        self.on_epoch_end()

    def __len__(self):
        return len(self.prices) // self.batch

    def on_epoch_end(self):
        self.order = self.draw.permutation(len(self.prices))

    def __getitem__(self, index):
        rows = self.order[index * self.batch : (index + 1) * self.batch]
        scaled = (self.features - self.mean) / self.std  # bottleneck
        return scaled[rows].astype("float32"), self.prices[rows]


model = keras.Sequential(
    [
        keras.Input(features.shape[1:]),
        layers.Dense(640, activation="relu"),
        layers.Dense(640, activation="relu"),
        layers.Dense(1),
    ]
)
model.compile("adam", "mae")
dataset = Houses(features, prices)

started = time.perf_counter()
history = model.fit(dataset, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(dataset) * dataset.batch * args.epochs} samples in {seconds:.2f} s")
