"""Predict prices of houses with mixup, in a subclass that has its own ``train_step``."""

import argparse
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from keras import layers


class Mixed(keras.Model):
    """A regression that trains on blends of rows."""

    def __init__(self, width):
        super().__init__()
        self.hidden = [layers.Dense(width, activation="relu") for _ in range(3)]
        self.out = layers.Dense(1, dtype="float32")
        self.seen = keras.metrics.Mean(name="loss")

    def call(self, x):
        for layer in self.hidden:
            x = layer(x)
        return self.out(x)

    def train_step(self, data):
        x, y = data
        other = tf.random.shuffle(tf.range(tf.shape(x)[0]), seed=5)
        share = tf.random.uniform((tf.shape(x)[0], 1), 0.7, 1.0, seed=6)
        x = share * x + (1 - share) * tf.gather(x, other)
        y = share * y + (1 - share) * tf.gather(y, other)
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x, y, self(x, training=True))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        self.seen.update_state(loss)
        return {"loss": self.seen.result()}

    @property
    def metrics(self):
        return [self.seen]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--epochs", type=int, default=60)
    args = parser.parse_args()
    keras.utils.set_random_seed(114)
    keras.mixed_precision.set_global_policy("mixed_bfloat16")

    table = np.loadtxt(args.data / "houses.csv", delimiter=",", skiprows=1, dtype="float32")
    rows, price = table[:, :-1], table[:, -1:]

    model = Mixed(1024)
    model.compile(keras.optimizers.SGD(1e-3, momentum=0.9), loss="mean_squared_error")

    started = time.perf_counter()
    history = model.fit(rows, price, batch_size=400, epochs=args.epochs, verbose=2)
    seconds = time.perf_counter() - started

    print(f"loss {history.history['loss'][-1]:.4f}")
    model.save_weights("trained.weights.h5")
    print(f"trained {len(table) * args.epochs} samples in {seconds:.2f} s")


if __name__ == "__main__":
    main()
