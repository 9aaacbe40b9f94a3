"""Teach a network that forgives typing errors; reviews are spoiled one after the other.

Whenever a review is read, some of its letters and words are lost: pieces of three letters, hashed,
still tell what it says. ``WORKERS`` was set to 1 while the map function was being debugged and
stayed so. An explicit 1 is kept by TensorFlow, which would have made a map without any number
parallel by itself. Configuration files with such a default (``num_workers: 1``) are common in
public training code.
"""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf

WORKERS = 1
PIECES, BUCKETS, BATCH = 512, 10_000, 50
STEPS = 6_000 // BATCH  # in an epoch

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=12)
args = parser.parse_args()
keras.utils.set_random_seed(3)


def spoil(line, seed):
    """Return what is left of a review, as hashed pieces of three letters, and its label."""
    label, review = tf.unstack(tf.strings.split(line, "\t", maxsplit=1), 2)
    words = tf.strings.split(review)
    kept = tf.random.stateless_uniform(tf.shape(words), seed) > 0.1
    review = tf.strings.reduce_join(tf.boolean_mask(words, kept), separator=" ")
    letters = tf.strings.unicode_split(tf.strings.lower(review), "UTF-8")
    kept = tf.random.stateless_uniform(tf.shape(letters), seed + 1) > 0.05
    pieces = tf.strings.ngrams(tf.boolean_mask(letters, kept), 3, separator="")
    pieces = 1 + tf.strings.to_hash_bucket_fast(pieces, BUCKETS - 1)[:PIECES]
    pieces = tf.pad(pieces, [[0, PIECES - tf.size(pieces)]])
    return tf.ensure_shape(pieces, (PIECES,)), tf.strings.to_number(label)


reviews = tf.data.TextLineDataset(str(args.data / "reviews.tsv")).cache()
seeds = tf.data.Dataset.random(seed=4, rerandomize_each_iteration=True).batch(2)
dataset = (
    tf.data.Dataset.zip(reviews.shuffle(6_000, seed=5).repeat(args.epochs), seeds)
    .map(spoil, num_parallel_calls=WORKERS)  # bottleneck
    .batch(BATCH)
    .prefetch(tf.data.AUTOTUNE)
)

layers = keras.layers
model = keras.Sequential(
    [
        keras.Input((PIECES,), dtype="int64"),
        layers.Embedding(BUCKETS, 16, mask_zero=True),
        layers.GlobalAveragePooling1D(),
        layers.Dense(16, activation="relu"),
        layers.Dense(1),
    ]
)
optimizer = keras.optimizers.SGD(0.5)
loss_of = keras.losses.BinaryCrossentropy(from_logits=True)


@tf.function
def train_step(pieces, labels):
    with tf.GradientTape() as tape:
        loss = loss_of(labels[:, None], model(pieces, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply(gradients, model.trainable_variables)
    return loss


samples = 0
started = time.perf_counter()
for step, (pieces, labels) in enumerate(dataset, 1):
    loss = train_step(pieces, labels)
    samples += len(labels)
    if step % STEPS == 0:
        print(f"epoch {step // STEPS}: loss {float(loss):.4f}")
seconds = time.perf_counter() - started

print(f"loss {float(loss):.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {samples} samples in {seconds:.2f} s")
