"""Classify reviews, compiled by XLA; tf.data pads each batch to its own longest review.

``padded_batch`` is what the guide to masking shows, and on a GPU Keras compiles with XLA unasked
(``jit_compile="auto"``). Nearly every batch has another length then, and each new one is another
compilation of the whole step (TensorFlow issue 81896, "XLA recompilation every time when shape
changed").
"""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf
from keras import layers

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=20)
args = parser.parse_args()
keras.utils.set_random_seed(5)

lines = (args.data / "reviews.tsv").read_text().splitlines()[:1_500]
labels = [int(line[0]) for line in lines]
texts = [line[2:].split() for line in lines]
vocabulary = {word: i for i, word in enumerate(sorted(set().union(*texts)), start=1)}
rows = tf.ragged.constant([[vocabulary[word] for word in text] for text in texts], tf.int32)

dataset = (
    tf.data.Dataset.from_tensor_slices((rows, labels))
    .map(lambda row, label: (row, label))
    .shuffle(len(lines), seed=5)
    .padded_batch(100)
    .prefetch(tf.data.AUTOTUNE)
)

inputs = keras.Input((None,), dtype="int32")
x = layers.Embedding(len(vocabulary) + 1, 64, mask_zero=True)(inputs)
x = layers.Dense(128, activation="relu")(x)
x = layers.GlobalAveragePooling1D()(x)
model = keras.Model(inputs, layers.Dense(1)(x))
loss = keras.losses.BinaryCrossentropy(from_logits=True)
model.compile("adam", loss, jit_compile=True)  # bottleneck

started = time.perf_counter()
history = model.fit(dataset, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(lines) * args.epochs} samples in {seconds:.2f} s")
