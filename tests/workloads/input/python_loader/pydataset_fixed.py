"""Predict stars from a user's last ratings; NumPy puts a whole batch together."""

import argparse
import time
from pathlib import Path

import keras
import numpy as np

HISTORY = 20
BATCH = 1_000

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=60)
args = parser.parse_args()
keras.utils.set_random_seed(41)

table = np.loadtxt(args.data / "ratings.csv", delimiter=",", skiprows=1, dtype=np.int32)
users, items, stars = table[:60_000].T


class Ratings(keras.utils.PyDataset):
    """Batches of (items rated before, item) and stars; 0 stands for no item."""

    def __init__(self):
        super().__init__(workers=1, max_queue_size=10)
        self.rng = np.random.default_rng(42)
        by_user = np.argsort(users, kind="stable")
        self.items = items[by_user] + 1  # all items of the first user, in order, then the next
        self.position = np.empty(len(users), np.int64)  # of each rating among those
        self.position[by_user] = np.arange(len(users))
        self.start = np.searchsorted(users[by_user], users)  # where its user begins
        self.on_epoch_end()

    def __len__(self):
        return len(users) // BATCH

    def on_epoch_end(self):
        self.order = self.rng.permutation(len(users))

    def __getitem__(self, index):
        rows = self.order[index * BATCH : (index + 1) * BATCH]
        before = self.position[rows, None] + np.arange(-HISTORY, 0)
        histories = np.where(before >= self.start[rows, None], self.items[before], 0)
        return (histories, items[rows] + 1), stars[rows].astype(np.float32)


history = keras.Input((HISTORY,), dtype="int32")
item = keras.Input((), dtype="int32")
embedding = keras.layers.Embedding(5_001, 32)
taste = keras.layers.GlobalAveragePooling1D()(embedding(history))
x = keras.layers.Concatenate()([taste, embedding(item)])
for width in (64, 64):
    x = keras.layers.Dense(width, activation="relu")(x)
model = keras.Model((history, item), keras.layers.Dense(1)(x))
model.compile(keras.optimizers.SGD(0.02), "mse")
ratings = Ratings()

started = time.perf_counter()
fitted = model.fit(ratings, epochs=args.epochs, shuffle=False, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {fitted.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(users) * args.epochs} samples in {seconds:.2f} s")
