"""Judge reviews; every one is filled up to the longest of all, 200 words, though most have 30.

A fixed length is the usual recipe (``maxlen`` in every introduction), and it makes four fifths of
the convolutions work on nothing but padding. keras#15810 asks for padding batch by batch.
"""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf
from keras import layers

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=40)
args = parser.parse_args()
keras.utils.set_random_seed(60)

LONGEST, BATCH = 200, 128

file = args.data / "reviews.tsv"
reviews = len(file.read_text().splitlines())


def parse(line):
    """The numbers of the words, from 1 on: 0 is the padding."""
    parts = tf.strings.split(line, "\t")
    words = tf.strings.regex_replace(tf.strings.split(parts[1]), "word", "")
    return tf.strings.to_number(words, tf.int32) + 1, tf.strings.to_number(parts[0], tf.int32)


dataset = (
    tf.data.TextLineDataset(str(file))
    .map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    .cache()
    .shuffle(reviews, seed=61)
    .padded_batch(BATCH, ([LONGEST], []))  # bottleneck
    .prefetch(tf.data.AUTOTUNE)
)

model = keras.Sequential(
    [
        keras.Input((None,), dtype="int32"),
        layers.Embedding(5_001, 48),
        layers.Conv1D(64, 5, padding="same", activation="relu"),
        layers.Conv1D(64, 5, padding="same", activation="relu"),
        layers.GlobalMaxPooling1D(),
        layers.Dropout(0.3),
        layers.Dense(1),
    ]
)
model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True))

started = time.perf_counter()
history = model.fit(dataset, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {reviews * args.epochs} samples in {seconds:.2f} s")
