"""Classify reviews, compiled by XLA, in batches that are each padded to their own longest text.

Batches of similar length waste little on padding, and ``jit_compile=True`` is said to be faster.
Together they are not: XLA compiles for exact shapes, so every new length is another compilation
of the whole step (TensorFlow issue 81896, "XLA recompilation every time when shape changed").
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
keras.utils.set_random_seed(5)

lines = (args.data / "reviews.tsv").read_text().splitlines()
labels = np.array([int(line[0]) for line in lines])
texts = [line[2:].split() for line in lines]
vocabulary = {word: i for i, word in enumerate(sorted(set().union(*texts)), start=1)}
lengths = np.array([len(text) for text in texts])
tokens = np.zeros((len(texts), lengths.max()), "int32")
for row, text in zip(tokens, texts, strict=True):
    row[: len(text)] = [vocabulary[word] for word in text]


class SimilarLength(keras.utils.PyDataset):
    """Batches of texts of about the same length, mixed anew for every epoch."""

    def __init__(self, batch_size):
        super().__init__()
        self.draw = np.random.default_rng(5)
        self.batch_size = batch_size
        self.on_epoch_end()

    def __len__(self):
        return len(self.batches)

    def __getitem__(self, index):
        rows = self.batches[index]
        return tokens[rows, : lengths[rows].max()], labels[rows]

    def on_epoch_end(self):
        order = np.argsort(lengths + self.draw.uniform(0, 12, len(lengths)))
        self.batches = np.split(order, range(self.batch_size, len(order), self.batch_size))
        self.draw.shuffle(self.batches)


inputs = keras.Input((None,), dtype="int32")
x = layers.Embedding(len(vocabulary) + 1, 64)(inputs)
x = layers.Dense(192, activation="relu")(x)
x = layers.GlobalMaxPooling1D()(x)
model = keras.Model(inputs, layers.Dense(1)(x))
loss = keras.losses.BinaryCrossentropy(from_logits=True)
model.compile("adam", loss, jit_compile=True)  # bottleneck

started = time.perf_counter()
history = model.fit(SimilarLength(1_000), epochs=args.epochs, shuffle=False, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(texts) * args.epochs} samples in {seconds:.2f} s")
