"""Forecast a long signal from windows of it; the next batch is cut out meanwhile."""

import argparse
import time
import wave
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

BATCH = 20
FRAME = 64  # samples that the network sees, and foretells, at once
RATIO = 6  # of the recording's rate to the network's
FRAMES = 48
WINDOW = RATIO * FRAME * (FRAMES + 1)
STEPS = 120  # in an epoch

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=60)
args = parser.parse_args()
keras.utils.set_random_seed(81)


def samples(path):
    with wave.open(str(path)) as file:
        return np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 2**15


recordings = sorted((args.data / "speech").glob("*/*.wav"))
signal = tf.constant(np.concatenate([samples(path) for path in recordings]))


def cut(key, step):
    """Windows at random places; high frequencies are damped, then every sixth sample is taken."""
    del step
    key, *keys = tf.unstack(tf.random.split(key, 4))
    places = tf.random.stateless_uniform((BATCH, 1), keys[0], 0, len(signal) - WINDOW, tf.int32)
    spectra = tf.signal.rfft(tf.gather(signal, places + tf.range(WINDOW)))
    cutoff = tf.random.stateless_uniform((BATCH, 1), keys[1], 0.1, 0.3)
    damping = 1 / (1 + (tf.linspace(0.0, 1.0, WINDOW // 2 + 1) / cutoff) ** 4)
    damped = tf.signal.irfft(spectra * tf.cast(damping, tf.complex64))[:, ::RATIO]
    damped += tf.random.stateless_normal(tf.shape(damped), keys[2], stddev=0.01)
    frames = tf.reshape(damped, (BATCH, FRAMES + 1, FRAME))
    return key, (frames[:, :-1], frames[:, -1])


options = tf.data.Options()
options.experimental_optimization.apply_default_optimizations = False
dataset = tf.data.Dataset.range(STEPS * args.epochs).with_options(options)
dataset = dataset.scan(tf.constant([0, 82]), cut).prefetch(tf.data.AUTOTUNE)

model = keras.Sequential(
    [
        keras.Input((FRAMES, FRAME)),
        keras.layers.GRU(64),
        keras.layers.Dense(FRAME),
    ]
)
optimizer = keras.optimizers.RMSprop(1e-3)


@tf.function
def train_step(past, future):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(past, training=True) - future))
    variables = model.trainable_variables
    optimizer.apply(tape.gradient(loss, variables), variables)
    return loss


started = time.perf_counter()
for step, (past, future) in enumerate(dataset, 1):
    loss = train_step(past, future)
    if step % STEPS == 0:
        print(f"epoch {step // STEPS}: loss {float(loss):.4f}")
seconds = time.perf_counter() - started

print(f"loss {float(loss):.6f}")
model.save_weights("trained.weights.h5")
print(f"trained {BATCH * STEPS * args.epochs} samples in {seconds:.2f} s")
