"""Predict the next sample of a signal; a validation is set up from scratch every five steps.

The loop looks at a few validation windows often, to see where the training turns. Looking is
cheap, but ``model.evaluate`` is made for whole epochs: each call builds a pipeline and an iterator
over the arrays, resets metrics, and dresses up callbacks. TensorFlow issue 58828 measured epochs
ten times as long for a single validation sample, which is all set-up.
"""

import argparse
import time
import wave
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from keras import layers

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=40)
args = parser.parse_args()
keras.utils.set_random_seed(13)


def windows(path, length=128, every=800):
    """Cut a recording into windows of the signal and the sample that follows each."""
    with wave.open(str(path)) as file:
        signal = np.frombuffer(file.readframes(16_000), "<i2").astype("float32") / 2**15
    return np.lib.stride_tricks.sliding_window_view(signal, length + 1)[::every]


signals = np.concatenate([windows(p) for p in sorted((args.data / "speech").glob("*/*.wav"))])
np.random.default_rng(13).shuffle(signals)
x_train, y_train = signals[200:, :-1, None], signals[200:, -1:]
x_valid, y_valid = signals[:200, :-1, None], signals[:200, -1:]
dataset = (
    tf.data.Dataset.from_tensor_slices((x_train, y_train))
    .shuffle(len(x_train), seed=13)
    .batch(200, drop_remainder=True)
    .prefetch(tf.data.AUTOTUNE)
)


class Forecast(keras.Model):
    """Causal convolutions that look back further and further."""

    def __init__(self):
        super().__init__()
        self.convolutions = [
            layers.Conv1D(32, 3, strides=2, padding="causal", activation="relu") for _ in range(6)
        ]
        self.flatten = layers.Flatten()
        self.out = layers.Dense(1)

    def call(self, x):
        for convolution in self.convolutions:
            x = convolution(x)
        return self.out(self.flatten(x))


model = Forecast()
model.compile(optimizer=keras.optimizers.Nadam(1e-3), loss="mse")


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    model.optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


best = np.inf
step = 0
started = time.perf_counter()
for epoch in range(args.epochs):
    for x, y in dataset:
        loss = train_step(x, y)
        step += 1
        if step % 5 == 0:
            best = min(
                best, model.evaluate(x_valid, y_valid, batch_size=200, verbose=0)
            )  # bottleneck
    print(f"epoch {epoch + 1}: loss {float(loss):.5f}, best validation {best:.5f}")
seconds = time.perf_counter() - started

print(f"loss {float(loss):.5f}, best validation {best:.5f}")
model.save_weights("trained.weights.h5")
print(f"trained {step * 200} samples in {seconds:.2f} s")
