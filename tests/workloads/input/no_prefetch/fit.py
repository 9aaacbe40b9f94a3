"""Recognise words in noise with a recurrent network; input and step take turns.

Every batch gets its noise from a random key that is carried from batch to batch, as one does in
JAX; ``scan`` is sequential by nature and runs in the thread that asks for the batch. TensorFlow
would add the missing ``prefetch`` by itself, but not where autotuning is switched off, which people
do who ran out of memory (tensorflow#33516): so the network waits while a batch is made, and the
next batch is not begun before the network is done.
"""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf

RATE = 16_000

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=60)
args = parser.parse_args()
keras.utils.set_random_seed(71)

words = sorted(p.name for p in (args.data / "speech").iterdir())
paths = sorted(str(p) for p in (args.data / "speech").glob("*/*.wav"))
targets = [words.index(Path(p).parent.name) for p in paths]
mel = tf.signal.linear_to_mel_weight_matrix(64, 513, RATE, 60.0, 7600.0)


def read(path, target):
    sound, _ = tf.audio.decode_wav(tf.io.read_file(path), desired_samples=RATE)
    return tf.squeeze(sound, -1), target


def analyse(key, batch):
    """Return the next random key, and the spectra of a batch with noise on it."""
    sounds, target = batch
    keys = tf.random.split(key)
    sounds += tf.random.stateless_normal(tf.shape(sounds), keys[1], stddev=0.05)
    spectra = tf.abs(tf.signal.stft(sounds, 1_024, 60))
    bands = tf.math.log(tf.matmul(spectra, mel) + 1e-5)
    return keys[0], (tf.nn.avg_pool1d(bands, 3, 3, "VALID"), target)


options = tf.data.Options()
options.autotune.enabled = False
dataset = (
    tf.data.Dataset.from_tensor_slices((paths, targets))
    .with_options(options)
    .map(read, num_parallel_calls=2)
    .cache()
    .shuffle(len(paths), seed=72)
    .batch(20)
    .scan(tf.constant([0, 73]), analyse)  # bottleneck
)

model = keras.Sequential(
    [
        keras.Input((83, 64)),
        keras.layers.GRU(64),
        keras.layers.Dense(len(words)),
    ]
)
model.compile(
    keras.optimizers.Adam(2e-3, clipnorm=1.0),
    keras.losses.SparseCategoricalCrossentropy(from_logits=True),
)

started = time.perf_counter()
history = model.fit(dataset, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(paths) * args.epochs} samples in {seconds:.2f} s")
