"""Predict stars from a user's last ratings; each batch is put together row by row in Python.

``__getitem__`` pads the history of one user after the other. Keras runs it on a thread beside the
training, but a batch takes that thread far longer than the step takes, and more workers would
share one interpreter lock. Slow ``Sequence`` / ``PyDataset`` loaders are among the most frequent
complaints about slow ``fit`` (for example keras#18090).
"""

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
        self.past = {}  # user: the items rated, in order
        self.position = []  # of each rating in its user's list
        for user, item in zip(users.tolist(), items.tolist(), strict=True):
            rated = self.past.setdefault(user, [])
            self.position.append(len(rated))
            rated.append(item + 1)
        self.on_epoch_end()

    def __len__(self):
        return len(users) // BATCH

    def on_epoch_end(self):
        self.order = self.rng.permutation(len(users))

    def __getitem__(self, index):
        rows = self.order[index * BATCH : (index + 1) * BATCH]
        histories = []
        for row in rows:  # bottleneck
            position = self.position[row]
            recent = self.past[int(users[row])][max(0, position - HISTORY) : position]
            histories.append(np.pad(recent, (HISTORY - len(recent), 0)))
        histories = np.stack(histories).astype(np.int32)
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
