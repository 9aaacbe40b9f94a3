"""Tell spoken words apart by how the channels of a convolution vary together.

Bilinear pooling takes the covariance of the channels in each recording, with a signed square root
and a norm of one (Lin et al. 2015). The layer was written for a single recording, where all that is
a few lines of matrix algebra, and ``tf.map_fn`` carries it over the batch: 64 rounds of small
operations forward, 64 more backward. The same lines take a batch where an axis is named for each.
https://github.com/tensorflow/tensorflow/issues/24774 asks why ``map_fn`` is so slow.
"""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=60)
args = parser.parse_args()
keras.utils.set_random_seed(8)

BATCH, FRAMES = 64, 64


def windows(file):
    """Seven overlapping excerpts of the logarithmic spectrum of a recording."""
    sound, _ = tf.audio.decode_wav(tf.io.read_file(file), 1, 16_000)
    spectrum = tf.abs(tf.signal.stft(sound[:, 0], 400, 160, 512))
    mel = spectrum @ tf.signal.linear_to_mel_weight_matrix(40, 257, 16_000)
    return tf.signal.frame(tf.math.log(mel + 1e-6), FRAMES, 5, axis=0)[:7]


files = sorted((args.data / "speech").glob("*/*.wav"))
words = sorted({file.parent.name for file in files})
spectra = tf.data.Dataset.from_tensor_slices([str(file) for file in files])
spectra = spectra.map(windows, tf.data.AUTOTUNE).unbatch().batch(10_000).get_single_element()
labels = tf.repeat([words.index(file.parent.name) for file in files], 7)

train = (
    tf.data.Dataset.from_tensor_slices((spectra, labels))
    .shuffle(len(labels), seed=8)
    .batch(BATCH)
    .prefetch(tf.data.AUTOTUNE)
)


class BilinearPooling(keras.layers.Layer):
    """How channels vary together in each recording, whatever its length."""

    def call(self, states):
        def pool(channels):
            channels -= tf.reduce_mean(channels, axis=0)
            together = tf.matmul(channels, channels, transpose_a=True)
            flat = tf.reshape(together, [-1]) / FRAMES
            root = tf.sign(flat) * tf.sqrt(tf.abs(flat) + 1e-5)
            return root / tf.norm(root)

        return tf.map_fn(pool, states)  # bottleneck


model = keras.Sequential(
    [
        keras.Input((FRAMES, 40)),
        keras.layers.Conv1D(48, 5, activation="relu"),
        keras.layers.Conv1D(32, 5),
        BilinearPooling(),
        keras.layers.Dense(len(words)),
    ]
)
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))

started = time.perf_counter()
history = model.fit(train, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(labels) * args.epochs} samples in {seconds:.2f} s")
