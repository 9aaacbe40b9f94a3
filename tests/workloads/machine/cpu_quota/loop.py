"""Predict prices of houses with an own training step; TensorFlow may use one thread for it.

The two settings come with recipes for reproducible runs, and with job templates that give one core
to each task (tensorflow/tensorflow#34415 answers with them). The job has the whole machine now, and
the results repeat without them as well.
"""

import argparse
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from keras import layers

tf.config.threading.set_intra_op_parallelism_threads(1)  # bottleneck
tf.config.threading.set_inter_op_parallelism_threads(1)  # bottleneck

BATCH = 500


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--epochs", type=int, default=60)
    args = parser.parse_args()
    keras.utils.set_random_seed(17)
    keras.mixed_precision.set_global_policy("mixed_bfloat16")

    table = np.loadtxt(args.data / "houses.csv", delimiter=",", skiprows=1, dtype="float32")
    features, price = table[:, :-1], table[:, -1:]
    draw = np.random.default_rng(1)

    model = keras.Sequential([keras.Input((features.shape[1],))])
    for _ in range(3):
        model.add(layers.Dense(1024, activation="relu"))
    model.add(layers.Dense(1, dtype="float32"))
    optimizer = keras.optimizers.SGD(1e-3, momentum=0.9)
    optimizer.build(model.trainable_variables)

    @tf.function
    def train_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    started = time.perf_counter()
    for epoch in range(args.epochs):
        order = draw.permutation(len(table)).reshape(-1, BATCH)
        for rows in order:
            loss = train_step(features[rows], price[rows])
        print(f"epoch {epoch + 1}: loss {loss:.4f}")
    loss = float(loss)
    seconds = time.perf_counter() - started

    print(f"loss {loss:.4f}")
    model.save_weights("trained.weights.h5")
    print(f"trained {len(table) * args.epochs} samples in {seconds:.2f} s")


if __name__ == "__main__":
    main()
