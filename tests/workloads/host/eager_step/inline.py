"""Predict house prices with a loop of our own; all of the step stands in the loop itself.

So do the first sections of TensorFlow's and Keras's guides to loops of one's own: the tape, the
gradients and the update right below ``for x, y in dataset``. There is no function that could be
decorated with ``@tf.function``, and so every operation makes its own trip through Python.
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

table = np.loadtxt(args.data / "houses.csv", delimiter=",", skiprows=1, dtype="float32")
features, prices = table[:, :-1], table[:, -1:]
dataset = tf.data.Dataset.from_tensor_slices((features, prices))
dataset = dataset.shuffle(len(features), seed=3).batch(500).cache().prefetch(tf.data.AUTOTUNE)

inputs = keras.Input((features.shape[1],))
x = layers.Dense(128)(inputs)
for _ in range(4):
    y = layers.LayerNormalization()(x)
    y = layers.Dense(128, activation="relu")(y)
    x = layers.add([x, layers.Dense(128)(y)])
model = keras.Model(inputs, layers.Dense(1)(layers.LayerNormalization()(x)))


def train(model, optimizer, epochs):
    squares = keras.losses.MeanSquaredError()
    error = keras.metrics.MeanAbsoluteError()
    for epoch in range(epochs):
        error.reset_state()
        for x, y in dataset:
            with tf.GradientTape() as tape:  # bottleneck
                guess = model(x, training=True)
                loss = squares(y, guess)
            gradients = tape.gradient(loss, model.trainable_variables)
            gradients = [tf.clip_by_norm(gradient, 1.0) for gradient in gradients]
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            error.update_state(y, guess)
        print(f"epoch {epoch + 1}: off by {float(error.result()):.4f}")
    return loss


started = time.perf_counter()
loss = train(model, keras.optimizers.AdamW(5e-4), args.epochs)
seconds = time.perf_counter() - started

print(f"loss {float(loss):.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(features) * args.epochs} samples in {seconds:.2f} s")
