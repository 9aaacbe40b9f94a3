"""Predict house prices; the step is an object that is called, and holds all that it needs.

It runs op by op: a class has no function to hang ``@tf.function`` on, so it was forgotten.
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
keras.utils.set_random_seed(209)

table = np.loadtxt(args.data / "houses.csv", delimiter=",", skiprows=1, dtype="float32")
features, prices = table[:, :-1], table[:, -1:]


class TrainStep:
    def __init__(self, model, optimizer, decay):
        self.model = model
        self.optimizer = optimizer
        self.decay = decay
        self.error = keras.losses.Huber()
        self.averages = [tf.Variable(v, trainable=False) for v in model.trainable_variables]

    def __call__(self, x, y):  # bottleneck: eager_step
        weights = self.model.trainable_variables
        with tf.GradientTape() as tape:
            loss = self.error(y, self.model(x, training=True)) + sum(self.model.losses)
        gradients, _ = tf.clip_by_global_norm(tape.gradient(loss, weights), 1.0)
        self.optimizer.apply_gradients(zip(gradients, weights, strict=True))
        for average, weight in zip(self.averages, weights, strict=True):
            average.assign(self.decay * average + (1 - self.decay) * weight)
        return loss


model = keras.Sequential(
    [
        keras.Input((features.shape[1],)),
        *(layers.Dense(64, "relu", kernel_regularizer="l2") for _ in range(4)),
        layers.Dropout(0.1),
        layers.Dense(1),
    ]
)
step = TrainStep(model, keras.optimizers.Adam(1e-3), decay=0.99)
dataset = (
    tf.data.Dataset.from_tensor_slices((features, prices))
    .shuffle(len(features), seed=9)
    .batch(200)
    .prefetch(tf.data.AUTOTUNE)
)

started = time.perf_counter()
for epoch in range(args.epochs):
    total = tf.constant(0.0)
    for x, y in dataset:
        total += step(x, y)
    print(f"epoch {epoch + 1}: loss {float(total) / len(dataset):.6f}")
seconds = time.perf_counter() - started

print(f"loss {float(total) / len(dataset):.6f}")
for average, weight in zip(step.averages, model.trainable_variables, strict=True):
    weight.assign(average)
model.save_weights("trained.weights.h5")
print(f"trained {len(features) * args.epochs} samples in {seconds:.2f} s")
