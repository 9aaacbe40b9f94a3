"""Recognise words in noise; the recordings are shuffled, not their spectra."""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf

RATE = 16_000
AUTOTUNE = tf.data.AUTOTUNE

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=50)
args = parser.parse_args()
keras.utils.set_random_seed(111)

words = sorted(p.name for p in (args.data / "speech").iterdir())
paths = sorted(str(p) for p in (args.data / "speech").glob("*/*.wav"))
targets = [words.index(Path(p).parent.name) for p in paths]


def read(path, target):
    sound, _ = tf.audio.decode_wav(tf.io.read_file(path), desired_samples=RATE)
    return tf.squeeze(sound, -1), target


def noisy_spectrum(example, seed):
    sound, target = example
    sound += tf.random.stateless_normal((RATE,), seed, stddev=0.05)
    spectrum = tf.abs(tf.signal.stft(sound, 512, 80))
    return tf.math.log(spectrum + 1e-4), target


sounds = tf.data.Dataset.from_tensor_slices((paths, targets)).map(read, AUTOTUNE).cache()
seeds = tf.data.Dataset.random(seed=112, rerandomize_each_iteration=True).batch(2)
dataset = (
    tf.data.Dataset.zip(sounds, seeds)
    .shuffle(len(paths), seed=113)
    .map(noisy_spectrum, num_parallel_calls=AUTOTUNE)
    .batch(20)
    .prefetch(AUTOTUNE)
)

model = keras.Sequential(
    [
        keras.Input((194, 257)),
        keras.layers.GRU(48),
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
