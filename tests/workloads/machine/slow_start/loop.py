"""Recognise spoken words with a GRU that is unrolled in Python, one copy of the cell per frame.

``for t in range(...)`` over a static length runs while the function is traced: 125 cells become
thousands of operations, which Python builds, differentiates and hands to the optimizer of the graph
before the first step. The steps that follow are no faster for it. ``unroll=True`` does the same,
and both are written in the hope of speed (tensorflow/tensorflow#34920: 13 s of tracing).
"""
# ruff: noqa: E402  # the clock runs before the imports: they are part of the start

import time

started = time.perf_counter()

import argparse
from pathlib import Path

import keras
import tensorflow as tf
from keras import layers

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=3)
args = parser.parse_args()
keras.utils.set_random_seed(19)

files = sorted((args.data / "speech").glob("*/*.wav"))
words = sorted({file.parent.name for file in files})


def read(path, label):
    sound, _ = tf.audio.decode_wav(tf.io.read_file(path), 1, 16_000)
    return tf.reshape(sound, (40, 400)), label


labels = [words.index(file.parent.name) for file in files]
dataset = (
    tf.data.Dataset.from_tensor_slices(([str(file) for file in files], labels))
    .map(read, num_parallel_calls=tf.data.AUTOTUNE)
    .cache()
    .shuffle(len(files), seed=1)
    .batch(60)
    .prefetch(tf.data.AUTOTUNE)
)


class Listener(keras.Model):
    def __init__(self):
        super().__init__()
        self.cell = layers.GRUCell(64)
        self.head = layers.Dense(len(words))

    def call(self, frames):
        state = tf.zeros((tf.shape(frames)[0], self.cell.units))
        for t in range(frames.shape[1]):  # bottleneck
            state, _ = self.cell(frames[:, t], [state])
        return self.head(state)


model = Listener()
loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = keras.optimizers.Adam(2e-3)


@tf.function
def train_step(frames, label):
    with tf.GradientTape() as tape:
        loss = loss_of(label, model(frames, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


for epoch in range(args.epochs):
    for frames, label in dataset:
        loss = train_step(frames, label)
    print(f"epoch {epoch + 1}: loss {float(loss):.4f}")

print(f"loss {float(loss):.4f}")
model.save_weights("trained.weights.h5")
seconds = time.perf_counter() - started
print(f"trained {len(files) * args.epochs} samples in {seconds:.2f} s")
