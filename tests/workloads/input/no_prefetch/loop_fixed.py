"""Forecast a long signal from windows of it; the next batch is cut out meanwhile."""

import argparse
import time
import wave
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

BATCH = 64
FRAME = 64  # samples that the network sees, and foretells, at once
RATIO = 3  # of the recording's rate to the network's
FRAMES = 48
STEPS = 60  # in an epoch

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=60)
args = parser.parse_args()
keras.utils.set_random_seed(81)
rng = np.random.default_rng(82)


def samples(path):
    with wave.open(str(path)) as file:
        return np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 2**15


recordings = sorted((args.data / "speech").glob("*/*.wav"))
signal = np.concatenate([samples(path) for path in recordings])
windows = np.lib.stride_tricks.sliding_window_view(signal, RATIO * FRAME * (FRAMES + 1))


def batches():
    """Cut windows at random places; dampen high frequencies, then take every third sample."""
    for _ in range(STEPS):
        chosen = windows[rng.integers(0, len(windows), BATCH)]
        spectra = np.fft.rfft(chosen)
        cutoff = rng.uniform(0.1, 0.3, (BATCH, 1))
        frequencies = np.linspace(0, 1, spectra.shape[1])
        spectra /= 1 + (frequencies / cutoff) ** 4
        damped = np.fft.irfft(spectra)[:, ::RATIO].astype(np.float32)
        damped += rng.standard_normal(damped.shape, np.float32) * np.float32(0.01)
        frames = damped.reshape(BATCH, FRAMES + 1, FRAME)
        yield frames[:, :-1], frames[:, -1]


options = tf.data.Options()
options.experimental_optimization.apply_default_optimizations = False
signature = (
    tf.TensorSpec((BATCH, FRAMES, FRAME), tf.float32),
    tf.TensorSpec((BATCH, FRAME), tf.float32),
)
dataset = tf.data.Dataset.from_generator(batches, output_signature=signature)
dataset = dataset.prefetch(2).with_options(options)

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
for epoch in range(args.epochs):
    for past, future in dataset:
        loss = train_step(past, future)
    print(f"epoch {epoch + 1}: loss {float(loss):.4f}")
seconds = time.perf_counter() - started

print(f"loss {float(loss):.6f}")
model.save_weights("trained.weights.h5")
print(f"trained {BATCH * STEPS * args.epochs} samples in {seconds:.2f} s")
