"""Predict ratings; at every start Python reads the table and looks up each user and item.

``genfromtxt`` splits the lines in Python where ``loadtxt`` has had a parser in C since NumPy 1.23.
Then users and items get consecutive numbers, one comparison with the whole list per rating. All of
it is done again at every start, and takes longer than the training that follows. Short trainings
that are started often (a search over learning rates, a nightly refresh) are mostly this. In the
survey of Cao et al. (arXiv 2112.01771) 88 of 224 performance problems lie in preparing the data,
many of them for want of the call that takes a whole array.
"""
# ruff: noqa: E402  # the clock runs before the imports: they are part of the start

import time

started = time.perf_counter()

import argparse
from pathlib import Path

import keras
import numpy as np
from keras import layers

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=3)
args = parser.parse_args()
keras.utils.set_random_seed(18)


def rows(column):
    known = np.unique(column)
    return np.array([np.flatnonzero(known == value)[0] for value in column]), len(
        known
    )  # bottleneck


table = np.genfromtxt(args.data / "ratings.csv", delimiter=",", skip_header=1)  # bottleneck
ratings = table.astype("int32")
user, users = rows(ratings[:, 0])
item, items = rows(ratings[:, 1])
stars = ratings[:, 2].astype("float32")

user_input = keras.Input((), dtype="int32")
item_input = keras.Input((), dtype="int32")
pair = layers.Concatenate()(
    [layers.Embedding(users, 32)(user_input), layers.Embedding(items, 32)(item_input)]
)
x = layers.Dense(128, activation="relu")(pair)
x = layers.Dense(64, activation="relu")(x)
model = keras.Model([user_input, item_input], layers.Dense(1)(x))
model.compile(keras.optimizers.SGD(0.05), loss="mean_squared_error")
history = model.fit([user, item], stars, batch_size=4096, epochs=args.epochs, verbose=2)

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
seconds = time.perf_counter() - started
print(f"trained {len(ratings) * args.epochs} samples in {seconds:.2f} s")
