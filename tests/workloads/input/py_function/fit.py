"""Recognise words over a bad telephone; the line is imitated by a Python loop in the pipeline.

``numpy_function`` makes any Python look like a step of tf.data, and the map around it says
``num_parallel_calls``, yet all its calls share one interpreter lock: one core computes logarithms
one by one. The documentation of ``tf.numpy_function`` and ``tf.py_function`` states the limit; the
function is usually older than the pipeline.
"""

import argparse
import math
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

RATE = 8_000
AUTOTUNE = tf.data.AUTOTUNE

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=60)
args = parser.parse_args()
keras.utils.set_random_seed(51)

words = sorted(p.name for p in (args.data / "speech").iterdir())
paths = sorted(str(p) for p in (args.data / "speech").glob("*/*.wav"))
targets = [words.index(Path(p).parent.name) for p in paths]
mel = tf.signal.linear_to_mel_weight_matrix(48, 129, RATE, 60.0, 3800.0)


def read(path, target):
    sound, _ = tf.audio.decode_wav(tf.io.read_file(path), desired_samples=2 * RATE)
    return tf.reduce_mean(tf.reshape(sound, (RATE, 2)), axis=1), target  # to 8 kHz


def compress(sound, mu):
    """Compress the volume as telephones do (mu-law), by a strength of our choice."""
    full = math.log1p(mu)
    coded = [math.copysign(math.log1p(mu * abs(s)) / full, s) for s in sound.tolist()]
    return np.array(coded, np.float32)


def telephone(example, seed):
    sound, target = example
    mu = tf.random.stateless_uniform((), seed, 50.0, 255.0)
    sound = tf.numpy_function(compress, [sound, mu], tf.float32)  # bottleneck
    sound = tf.ensure_shape(sound, (RATE,))
    spectrum = tf.abs(tf.signal.stft(sound, 256, 80))
    return tf.math.log(tf.matmul(spectrum, mel) + 1e-4), target


sounds = tf.data.Dataset.from_tensor_slices((paths, targets)).map(read, AUTOTUNE).cache()
seeds = tf.data.Dataset.random(seed=52, rerandomize_each_iteration=True).batch(2)
dataset = (
    tf.data.Dataset.zip(sounds.shuffle(len(paths), seed=53), seeds)
    .map(telephone, num_parallel_calls=AUTOTUNE)
    .batch(20)
    .prefetch(AUTOTUNE)
)

model = keras.Sequential(
    [
        keras.Input((97, 48)),
        keras.layers.Conv1D(192, 5, padding="same", activation="relu"),
        keras.layers.Conv1D(96, 5, strides=2, padding="same", activation="relu"),
        keras.layers.GlobalMaxPooling1D(),
        keras.layers.Dense(len(words)),
    ]
)
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))

started = time.perf_counter()
history = model.fit(dataset, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(paths) * args.epochs} samples in {seconds:.2f} s")
