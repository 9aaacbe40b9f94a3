"""Fit house prices on all rows at once; the allocator keeps what is freed."""
# ruff: noqa: E402  # the allocator is set before TensorFlow starts its threads

import argparse
import ctypes
import time
from pathlib import Path

libc = ctypes.CDLL(None)
libc.mallopt(-8, 1)  # M_ARENA_MAX
libc.mallopt(-4, 0)  # M_MMAP_MAX
libc.mallopt(-1, -1)  # M_TRIM_THRESHOLD

import keras
import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=60)
args = parser.parse_args()
keras.utils.set_random_seed(45)

STEPS = 8
rows = np.loadtxt(args.data / "houses.csv", delimiter=",", skiprows=1, dtype="float32")
features, prices = rows[:, :-1], rows[:, -1:]
prices = (prices - prices.mean()) / prices.std()
dataset = tf.data.Dataset.from_tensors((features, prices)).cache().repeat(STEPS)

model = keras.Sequential(
    [
        keras.Input((features.shape[1],)),
        keras.layers.Dense(512, activation="silu"),
        keras.layers.Dense(1),
    ]
)
optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
optimizer.build(model.trainable_variables)
loss_of = keras.losses.Huber()


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_of(y, model(x, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


start = time.perf_counter()
for epoch in range(args.epochs):
    for x, y in dataset:
        loss = train_step(x, y)
    print(f"epoch {epoch + 1}: loss {float(loss):.4f}")
final = float(loss)
seconds = time.perf_counter() - start

print(f"loss {final:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(rows) * STEPS * args.epochs} samples in {seconds:.2f} s")
