"""Tell good reviews from bad by hashed character n-grams, counted in Python.

The counting imitates scikit-learn's ``HashingVectorizer(analyzer="char")`` and was brought along
in a ``py_function``: it holds the interpreter lock, which the training loop needs as well, so
``num_parallel_calls`` cannot help. Text pipelines with a Python tokenizer inside look like this.
"""

import argparse
import time
import zlib
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

BUCKETS = 4_096
BATCH = 60
LENGTHS = (3, 4, 5)

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=60)
args = parser.parse_args()
keras.utils.set_random_seed(61)

lines = [line.split("\t") for line in (args.data / "reviews.tsv").read_text().splitlines()]
labels = np.array([int(label) for label, _ in lines], np.float32)
texts = [text for _, text in lines]


def count(excerpts):
    """Count the n-grams of every text, each under the bucket of its hash."""
    counts = np.zeros((len(excerpts), BUCKETS), np.float32)
    for row, text in enumerate(excerpts.numpy()):
        for n in LENGTHS:
            for start in range(len(text) - n + 1):
                counts[row, zlib.crc32(text[start : start + n]) % BUCKETS] += 1
    return counts


def features(batch, seed):
    """Take another excerpt of 200 letters out of each review in every epoch."""
    text, label = batch
    room = tf.maximum(tf.strings.length(text) - 200, 0)
    start = tf.random.stateless_uniform(tf.shape(text), seed) * tf.cast(room + 1, tf.float32)
    excerpts = tf.strings.substr(text, tf.cast(start, tf.int32), tf.fill(tf.shape(text), 200))
    counts = tf.py_function(count, [excerpts], tf.float32)  # bottleneck
    return tf.ensure_shape(counts, (None, BUCKETS)), label


reviews = tf.data.Dataset.from_tensor_slices((texts, labels)).shuffle(len(texts), seed=62)
seeds = tf.data.Dataset.random(seed=63, rerandomize_each_iteration=True).batch(2)
dataset = (
    tf.data.Dataset.zip(reviews.batch(BATCH), seeds)
    .map(features, num_parallel_calls=tf.data.AUTOTUNE)
    .prefetch(tf.data.AUTOTUNE)
)

inputs = keras.Input((BUCKETS,))
x = keras.layers.Dense(512, activation="relu")(inputs)
x = keras.layers.Dropout(0.3, seed=64)(x)
model = keras.Model(inputs, keras.layers.Dense(1)(x))
optimizer = keras.optimizers.SGD(0.01)


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        logits = tf.squeeze(model(x, training=True), -1)
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(y, logits))
    variables = model.trainable_variables
    optimizer.apply(tape.gradient(loss, variables), variables)
    return loss


started = time.perf_counter()
for epoch in range(args.epochs):
    for x, y in dataset:
        loss = train_step(x, y)
    print(f"epoch {epoch + 1}: loss {float(loss):.4f}")
seconds = time.perf_counter() - started

print(f"loss {float(loss):.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(texts) * args.epochs} samples in {seconds:.2f} s")
