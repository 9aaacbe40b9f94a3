"""Classify reviews by their words and pairs of words, hashed into a large table, with Adam.

Adam moves every row in every step, also those whose words did not occur, because its moments
decay: 131,072 rows are read and written for the few thousand that a batch needs. TensorFlow users
met it in https://github.com/tensorflow/tensorflow/issues/6460; TensorFlow Addons had a LazyAdam
for it, Keras 3 has none.
"""

import argparse
import time
import zlib
from itertools import pairwise
from pathlib import Path

import keras
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=40)
args = parser.parse_args()
keras.utils.set_random_seed(4)

ROWS, WIDTH, BATCH = 131_072, 32, 60


def grams(text):
    words = text.split()
    pairs = [f"{a} {b}" for a, b in pairwise(words)]
    return [zlib.crc32(gram.encode()) % ROWS for gram in words + pairs]


lines = [line.split("\t") for line in (args.data / "reviews.tsv").read_text().splitlines()]
features = tf.ragged.constant([grams(text) for _, text in lines], dtype=tf.int64)
labels = tf.constant([[float(label)] for label, _ in lines])

dataset = (
    tf.data.Dataset.from_tensor_slices((features, labels))
    .batch(BATCH)
    .cache()
    .shuffle(100, seed=4)
    .prefetch(tf.data.AUTOTUNE)
)

phrases = keras.Sequential(
    [
        keras.Input((), dtype="int64"),
        keras.layers.Embedding(ROWS, WIDTH),  # bottleneck
        keras.layers.Dense(192, activation="relu"),
        keras.layers.Dense(192, activation="relu"),
    ]
)
head = keras.layers.Dense(1)
head.build((None, 192))
weights = [*phrases.trainable_variables, *head.trainable_variables]
optimizer = keras.optimizers.Adam(1e-3)  # bottleneck
optimizer.build(weights)
loss_of = keras.losses.BinaryCrossentropy(from_logits=True)


@tf.function(input_signature=dataset.element_spec)
def train_step(grams, labels):
    with tf.GradientTape() as tape:
        states = phrases(grams.values, training=True)
        text = tf.math.segment_mean(states, grams.value_rowids())
        loss = loss_of(labels, head(text))
    gradients = tape.gradient(loss, weights)
    optimizer.apply_gradients(zip(gradients, weights, strict=True))
    return loss


start = time.perf_counter()
for epoch in range(args.epochs):
    for batch, target in dataset:
        loss = train_step(batch, target)
    print(f"epoch {epoch + 1}: loss {float(loss):.4f}")
final = float(loss)
seconds = time.perf_counter() - start

print(f"loss {final:.4f}")
keras.Sequential([phrases, head]).save_weights("trained.weights.h5")
print(f"trained {len(lines) * args.epochs} samples in {seconds:.2f} s")
