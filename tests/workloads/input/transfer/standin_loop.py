"""Recognise words from raw sound on another device; the batches are sent to it in every epoch.

A stand-in: a second TensorFlow process on this machine's network stands in for the GPU of
``gpu_loop.py``, and the socket between them for the bus. All recordings together are 38 MB and
would lie in the device's memory for good; instead each step waits for its 8 MB of them.
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
parser.add_argument("--epochs", type=int, default=100)
args = parser.parse_args()
keras.utils.set_random_seed(70)
draw = np.random.default_rng(70)

BATCH, STEPS = 128, 40
card = tf.distribute.Server.create_local_server()
tf.config.experimental_connect_to_host(card.target.removeprefix("grpc://"), job_name="card")
device = "/job:card/task:0/device:CPU:0"

files = sorted((args.data / "speech").glob("*/*.wav"))
words = sorted({f.parent.name for f in files})
labels = np.array([words.index(f.parent.name) for f in files], "int32")
waves = np.stack([np.frombuffer(f.read_bytes()[44:], "<i2") for f in files])
waves = (waves / 32_768).astype("float32")[..., None]

with tf.device(device):
    model = keras.Sequential(
        [
            keras.Input(waves.shape[1:]),
            layers.Conv1D(32, 80, strides=64, activation="relu"),
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
