"""Train a variational autoencoder on tables; the weight of its second loss goes up and down.

The weight of the divergence swings between 0 and 1 (cyclical annealing, Fu et al. 2019), so that
the decoder learns to use the code before it is held to a normal distribution, again and again. It
is computed for each step, and handed over as a Python number. To ``tf.function`` a number of
Python's is a part of the code: each new value is a new signature, and the whole step, gradients and
optimizer included, is traced again. TensorFlow's guide names it first among the causes of retracing
(https://www.tensorflow.org/guide/function#passing_python_scalars).
"""

import argparse
import math
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from keras import layers

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=80)
args = parser.parse_args()
keras.utils.set_random_seed(3)

table = np.genfromtxt(args.data / "houses.csv", delimiter=",", skip_header=1)[:6_144]
columns = table.shape[1]
table = ((table - table.mean(0)) / (table.std(0) + 1e-6)).astype("float32")

CODE, BATCH, CYCLE = 4, 512, 240
encoder = keras.Sequential(
    [keras.Input((columns,)), layers.Dense(128, activation="relu"), layers.Dense(2 * CODE)]
)
decoder = keras.Sequential(
    [keras.Input((CODE,)), layers.Dense(128, activation="relu"), layers.Dense(columns)]
)
weights = encoder.trainable_variables + decoder.trainable_variables
optimizer = keras.optimizers.Adam(1e-3)
optimizer.build(weights)

dataset = (
    tf.data.Dataset.from_tensor_slices(table)
    .cache()
    .shuffle(len(table), seed=3)
    .batch(BATCH, drop_remainder=True)
    .prefetch(tf.data.AUTOTUNE)
)


@tf.function  # bottleneck
def train_step(x, beta, seed):
    with tf.GradientTape() as tape:
        mean, log_variance = tf.split(encoder(x, training=True), 2, axis=1)
        noise = tf.random.stateless_normal(tf.shape(mean), seed)
        code = mean + tf.exp(0.5 * log_variance) * noise
        rebuilt = tf.reduce_mean(tf.square(decoder(code, training=True) - x))
        divergence = -0.5 * tf.reduce_mean(1 + log_variance - mean**2 - tf.exp(log_variance))
        loss = rebuilt + beta * divergence
    optimizer.apply(tape.gradient(loss, weights), weights)
    return loss


step = 0
started = time.perf_counter()
for epoch in range(args.epochs):
    for x in dataset:
        beta = (1 - math.cos(2 * math.pi * step / CYCLE)) / 2
        loss = train_step(x, beta, tf.stack([3, step]))  # bottleneck
        step += 1
    print(f"epoch {epoch + 1}: loss {float(loss):.4f}")
seconds = time.perf_counter() - started

print(f"loss {float(loss):.4f}")
encoder.save_weights("trained.weights.h5")
print(f"trained {step * BATCH} samples in {seconds:.2f} s")
