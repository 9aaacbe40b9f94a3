"""Recognise words in raw sound, cut to a random length per batch; every length is a new trace.

Cutting each batch to another length makes the model robust against short words. To ``tf.function``
a new length is a new signature: the whole step, gradients and optimizer included, is traced again.
Seen wherever batches are padded to their own longest member or cut at random; TensorFlow's warning
calls it "passing tensors with different shapes".
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
parser.add_argument("--epochs", type=int, default=60)
args = parser.parse_args()
keras.utils.set_random_seed(3)
draw = np.random.default_rng(3)

files = sorted((args.data / "speech").glob("*/*.wav"))
words = sorted({file.parent.name for file in files})
labels = np.array([words.index(file.parent.name) for file in files])
sounds = np.stack(
    [tf.audio.decode_wav(file.read_bytes(), 1, 16_000).audio.numpy() for file in files]
)

model = keras.Sequential(
    [
        keras.Input((None, 1)),
        layers.Conv1D(32, 80, strides=32, activation="relu"),
        layers.Conv1D(48, 3, activation="relu"),
        layers.MaxPooling1D(4),
        layers.Conv1D(64, 3, activation="relu"),
        layers.GlobalMaxPooling1D(),
        layers.Dense(len(words)),
    ]
)
optimizer = keras.optimizers.RMSprop(1e-3)
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function  # bottleneck
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_fn(y, model(x, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply(gradients, model.trainable_variables)
    return loss


batch_size = 60
started = time.perf_counter()
for epoch in range(args.epochs):
    losses = []
    for rows in draw.permutation(len(files)).reshape(-1, batch_size):
        length = draw.integers(9_600, 16_001)
        first = draw.integers(0, 16_001 - length)
        x = tf.constant(sounds[rows, first : first + length])
        losses.append(train_step(x, tf.constant(labels[rows])))  # bottleneck
    print(f"epoch {epoch + 1}: loss {np.mean(losses):.4f}")
seconds = time.perf_counter() - started

print(f"loss {np.mean(losses):.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(files) * args.epochs} samples in {seconds:.2f} s")
