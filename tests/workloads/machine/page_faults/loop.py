"""Fit house prices on all rows at once, as textbooks descend a gradient, in a loop of one's own.

A step is a few products with little arithmetic for their size, and functions of their results, 41
MB each. glibc gives each of them back to the operating system when TensorFlow frees it, and has to
ask for it again in the next step, page by page, filled with zeros.
"""

import argparse
import time
from pathlib import Path

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
    for x, y in dataset:  # bottleneck
        loss = train_step(x, y)
    print(f"epoch {epoch + 1}: loss {float(loss):.4f}")
final = float(loss)
seconds = time.perf_counter() - start

print(f"loss {final:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(rows) * STEPS * args.epochs} samples in {seconds:.2f} s")
