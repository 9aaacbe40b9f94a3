"""Classify reviews in a loop of its own; XLA compiles its step, batches have their own lengths.

The guide to custom training puts ``@tf.function(jit_compile=True)`` on the step, the guide to
masking pads with ``padded_batch``; TensorFlow traces and XLA compiles the step for each new length.
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
labels = [[float(line[0])] for line in lines]
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
loss_of = keras.losses.BinaryCrossentropy(from_logits=True)
optimizer = keras.optimizers.Adam()


@tf.function(jit_compile=True)
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_of(y, model(x, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


started = time.perf_counter()
for epoch in range(args.epochs):
    mean = keras.metrics.Mean()
    for x, y in dataset:  # bottleneck
        mean.update_state(train_step(x, y))
    print(f"epoch {epoch + 1}: loss {float(mean.result()):.4f}")
seconds = time.perf_counter() - started

print(f"loss {float(mean.result()):.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(lines) * args.epochs} samples in {seconds:.2f} s")
