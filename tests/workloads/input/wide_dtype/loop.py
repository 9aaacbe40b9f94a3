"""Recognise words; the sound is worked on in double precision.

16-bit samples divided by a Python number are float64 in NumPy, and everything in the pipeline
follows: windows, Fourier transforms and the mel matrix, until the result is narrowed for the model.
The sound is shifted at random first, so the spectrograms cannot be kept.
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
keras.utils.set_random_seed(32)

BATCH, PASSES = 50, 4

files = sorted((args.data / "speech").glob("*/*.wav"))
words = sorted({f.parent.name for f in files})
labels = np.array([words.index(f.parent.name) for f in files])
waves = np.stack([np.frombuffer(f.read_bytes()[44:], "<i2") for f in files])
waves = waves / 32_768  # bottleneck
mel = tf.signal.linear_to_mel_weight_matrix(64, 257, 16_000, 60, 7_600, tf.as_dtype(waves.dtype))


def hear(batch, seed):
    sounds, targets = batch
    shift = tf.random.stateless_uniform((), seed, -2_000, 2_000, tf.int32)
    sounds = tf.roll(sounds, shift, axis=1)
    power = tf.abs(tf.signal.stft(sounds, 400, 160, 512)) ** 2
    return tf.cast(tf.math.log(power @ mel + 1e-6), tf.float32), targets


batches = (
    tf.data.Dataset.from_tensor_slices((waves, labels))
    .shuffle(len(files), seed=33)
    .repeat(PASSES)
    .batch(BATCH)
)
seeds = tf.data.Dataset.random(seed=34, rerandomize_each_iteration=True)
dataset = (
    tf.data.Dataset.zip((batches, seeds.batch(2, drop_remainder=True)))
    .map(hear, num_parallel_calls=tf.data.AUTOTUNE)
    .prefetch(tf.data.AUTOTUNE)
)

sound = keras.Input((98, 64))
x = layers.Conv1D(96, 5, activation="relu")(sound)
x = layers.Conv1D(96, 5, activation="relu")(x)
x = layers.GlobalMaxPooling1D()(x)
model = keras.Model(sound, layers.Dense(len(words))(x))
optimizer = keras.optimizers.Adam(1e-3)
loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def train_step(sounds, targets):
    with tf.GradientTape() as tape:
        loss = loss_of(targets, model(sounds, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply(gradients, model.trainable_variables)
    return loss


started = time.perf_counter()
for epoch in range(args.epochs):
    losses = [train_step(*batch) for batch in dataset]
    print(f"epoch {epoch + 1}: loss {float(tf.reduce_mean(losses)):.4f}")
last = float(tf.reduce_mean(losses))
seconds = time.perf_counter() - started

print(f"loss {last:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(files) * PASSES * args.epochs} samples in {seconds:.2f} s")
