"""Recognise spoken words with an average-attention network: running means over time.

The mean of all frames so far is written as ``cumsum(x) / count``, the fewest operations. But
TensorFlow's scan kernel walks along the time axis on one core, number by number, forward and
backward; a product with a triangular matrix does more arithmetic in a third of the time. Slow
``tf.cumsum``: https://github.com/tensorflow/tensorflow/issues/24362.
"""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=40)
args = parser.parse_args()
keras.utils.set_random_seed(19)

WIDTH, BATCH = 96, 24


def spectrum(file):
    """Logarithmic mel spectrum, a frame every 5 ms."""
    sound, _ = tf.audio.decode_wav(tf.io.read_file(file), 1, 16_000)
    power = tf.abs(tf.signal.stft(sound[:, 0], 400, 80, 512))
    return tf.math.log(power @ tf.signal.linear_to_mel_weight_matrix(40, 257, 16_000) + 1e-5)


files = sorted((args.data / "speech").glob("*/*.wav"))
words = sorted({file.parent.name for file in files})
spectra = tf.data.Dataset.from_tensor_slices([str(file) for file in files])
spectra = spectra.map(spectrum, tf.data.AUTOTUNE).batch(len(files)).get_single_element()
labels = tf.constant([words.index(file.parent.name) for file in files])
FRAMES = spectra.shape[1]

dataset = (
    tf.data.Dataset.from_tensor_slices((spectra, labels))
    .shuffle(len(files), seed=19)
    .batch(BATCH, drop_remainder=True)
    .prefetch(tf.data.AUTOTUNE)
)


class RunningMean(keras.layers.Layer):
    """For each frame, the mean of it and all before it."""

    def call(self, x):
        count = tf.range(1.0, FRAMES + 1.0)[:, None]
        return tf.cumsum(x, axis=1) / count  # bottleneck


class AverageAttention(keras.layers.Layer):
    """The frame and its past, mixed by a gate."""

    def __init__(self):
        super().__init__()
        self.past = RunningMean()
        self.gate = keras.layers.Dense(WIDTH, activation="sigmoid")
        self.mix = keras.layers.Dense(WIDTH, activation="relu")

    def call(self, x):
        return x + self.gate(x) * self.mix(self.past(x))


model = keras.Sequential(
    [
        keras.Input(spectra.shape[1:]),
        keras.layers.Dense(WIDTH, activation="relu"),
        AverageAttention(),
        AverageAttention(),
        AverageAttention(),
        keras.layers.GlobalAveragePooling1D(),
        keras.layers.Dense(len(words)),
    ]
)
optimizer = keras.optimizers.Adam(1e-3)
optimizer.build(model.trainable_variables)
loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def train_step(spectra, labels):
    with tf.GradientTape() as tape:
        loss = loss_of(labels, model(spectra, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


start = time.perf_counter()
for epoch in range(args.epochs):
    for batch, target in dataset:
        loss = train_step(batch, target)
    print(f"epoch {epoch + 1}: loss {float(loss):.4f}")
final = float(loss)
seconds = time.perf_counter() - start

print(f"loss {final:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(files) // BATCH * BATCH * args.epochs} samples in {seconds:.2f} s")
