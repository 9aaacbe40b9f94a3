"""Classify reviews; after each epoch a callback asks the model for one held-out review at a time.

Keras has no metric that a paper wants, so somebody writes a callback that predicts and computes it.
It predicts row by row, as it was tried out in a notebook, and each call costs Python more than the
model (Keras issue 5589 shows such a callback; TensorFlow issue 40261 what a call in a loop costs).
The progress bar does not count it: the steps look as fast as ever.
"""

import argparse
import time
from pathlib import Path

import keras
import numpy as np
from keras import layers

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=60)
args = parser.parse_args()
keras.utils.set_random_seed(8)

lines = (args.data / "reviews.tsv").read_text().splitlines()
labels = np.array([int(line[0]) for line in lines])
texts = [line[2:].split() for line in lines]
vocabulary = {word: i for i, word in enumerate(sorted(set().union(*texts)))}
bags = np.zeros((len(texts), len(vocabulary)), "float32")
for bag, text in zip(bags, texts, strict=True):
    np.add.at(bag, [vocabulary[word] for word in text], 1)
held_out = slice(0, 2_000)
train = slice(2_000, len(bags))


class F1(keras.callbacks.Callback):
    """Of the positive reviews that were held out."""

    def on_epoch_end(self, epoch, logs=None):  # bottleneck
        scores = np.array([self.model.predict_on_batch(row[None])[0, 0] for row in bags[held_out]])
        found, right = scores > 0, labels[held_out] == 1
        f1 = 2 * (found & right).sum() / max(1, found.sum() + right.sum())
        print(f"epoch {epoch + 1} f1 {f1:.3f}")


model = keras.Sequential(
    [
        keras.Input((len(vocabulary),)),
        layers.Dense(64, activation="relu"),
        layers.Dense(1),
    ]
)
model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True), steps_per_execution=8)

started = time.perf_counter()
history = model.fit(
    *(bags[train], labels[train]),
    batch_size=256,
    epochs=args.epochs,
    callbacks=[F1()],
    verbose=2,
)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(bags[train]) * args.epochs} samples in {seconds:.2f} s")
