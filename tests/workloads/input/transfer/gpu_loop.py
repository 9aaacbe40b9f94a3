"""Recognise words from raw sound on a GPU; each batch of sound is sent to it, again every epoch.

All recordings together are 38 MB and would lie in the GPU's memory for good. Instead the step gets
rows of a NumPy array: 16 MB of pageable memory are copied while the GPU waits, for a step that
takes a few milliseconds. In tensorflow#44836 such copies were two thirds of the step.
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
parser.add_argument("--epochs", type=int, default=3_000)
args = parser.parse_args()
keras.utils.set_random_seed(70)
tf.config.experimental.enable_op_determinism()
draw = np.random.default_rng(70)

BATCH, STEPS = 256, 60
device = "/GPU:0"

files = sorted((args.data / "speech").glob("*/*.wav"))
words = sorted({f.parent.name for f in files})
labels = np.array([words.index(f.parent.name) for f in files], "int32")
waves = np.stack([np.frombuffer(f.read_bytes()[44:], "<i2") for f in files])
waves = (waves / 32_768).astype("float32")[..., None]

with tf.device(device):
    model = keras.Sequential(
        [
            keras.Input(waves.shape[1:]),
            layers.Conv1D(64, 80, strides=16, activation="relu"),
            layers.Conv1D(64, 3, strides=2, activation="relu"),
            layers.Conv1D(64, 3, strides=2, activation="relu"),
            layers.GlobalMaxPooling1D(),
            layers.Dense(len(words)),
        ]
    )
    optimizer = keras.optimizers.Adam(1e-3)
    optimizer.build(model.trainable_variables)
loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def train_step(sounds, targets):
    with tf.device(device):
        with tf.GradientTape() as tape:
            loss = loss_of(targets, model(sounds, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)
        return loss


started = time.perf_counter()
for epoch in range(args.epochs):
    losses = []
    for _ in range(STEPS):
        rows = draw.integers(len(files), size=BATCH)
        losses.append(train_step(waves[rows], labels[rows]))  # bottleneck
    last = float(tf.reduce_mean(losses))
    print(f"epoch {epoch + 1}: loss {last:.4f}")
seconds = time.perf_counter() - started

print(f"loss {last:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {BATCH * STEPS * args.epochs} samples in {seconds:.2f} s")
