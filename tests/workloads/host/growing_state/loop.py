"""Judge reviews by their words; all features of all steps grow into one array.

The features of the last hidden layer are kept, to plot how they move during the training.
``np.append`` looks like a list's ``append`` but copies the whole array, in float64 at that, because
``np.empty`` said so: the thousandth step copies what the first 999 have left. The answers to "NumPy
append vs Python append" on Stack Overflow (29839350) measure it.
"""

import argparse
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from keras import layers

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=10)
args = parser.parse_args()
keras.utils.set_random_seed(17)

lines = (args.data / "reviews.tsv").read_text().splitlines()
labels = np.array([[line[0] == "1"] for line in lines], np.float32)
vectorize = layers.TextVectorization(max_tokens=2_000, output_mode="multi_hot")
vectorize.adapt([line[2:] for line in lines])
words = vectorize([line[2:] for line in lines]).numpy()  # 6,000 x 2,000: 48 MB
dataset = (
    tf.data.Dataset.from_tensor_slices((words, labels))
    .shuffle(len(words), seed=17)
    .batch(60)
    .prefetch(tf.data.AUTOTUNE)
)

inputs = keras.Input((2_000,))
x = layers.Dense(384, activation="relu")(inputs)
hidden = layers.Dense(1_024, activation="relu")(x)
model = keras.Model(inputs, [layers.Dense(1)(hidden), hidden])
optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
loss_fn = keras.losses.BinaryCrossentropy(from_logits=True)


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        logits, hidden = model(x, training=True)
        loss = loss_fn(y, logits)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss, hidden


features = np.empty((0, 1_024))
started = time.perf_counter()
for epoch in range(args.epochs):
    for x, y in dataset:
        loss, hidden = train_step(x, y)
        features = np.append(features, hidden, axis=0)  # bottleneck
    print(f"epoch {epoch + 1}: loss {float(loss):.4f}")
seconds = time.perf_counter() - started

first, last = features[: len(words)], features[-len(words) :]
print(f"loss {float(loss):.4f}, spread of the features {first.std():.4f} -> {last.std():.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(words) * args.epochs} samples in {seconds:.2f} s")
