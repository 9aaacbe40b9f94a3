"""Tell spoken words apart with a loop of our own; the step is never compiled.

The loop is the first one of Keras's guide to writing a training loop from scratch. The guide adds
``@tf.function`` in a later section, which the copy does not have. So every operation of the forward
pass, of the gradients and of the optimizer makes its own trip through Python.
"""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf
from keras import layers

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=40)
args = parser.parse_args()
keras.utils.set_random_seed(7)

files = sorted((args.data / "speech").glob("*/*.wav"))
words = sorted({file.parent.name for file in files})
mel = tf.signal.linear_to_mel_weight_matrix(40, 257, 16_000)


def spectrogram(path):
    sound, _ = tf.audio.decode_wav(tf.io.read_file(path), 1, 16_000)
    power = tf.abs(tf.signal.stft(sound[:, 0], 400, 160, fft_length=512)) ** 2
    return tf.math.log(power @ mel + 1e-6)


# 600 spectrograms are 9 MB: computed once, kept in memory.
sounds = (
    tf.data.Dataset.from_tensor_slices([str(file) for file in files])
    .map(spectrogram, num_parallel_calls=tf.data.AUTOTUNE)
    .batch(len(files))
    .get_single_element()
)
labels = tf.constant([words.index(file.parent.name) for file in files])
dataset = (
    tf.data.Dataset.from_tensor_slices((sounds, labels))
    .shuffle(len(files), seed=7)
    .batch(25)
    .prefetch(tf.data.AUTOTUNE)
)


class WordNet(keras.Model):
    def __init__(self, width=96, depth=3):
        super().__init__()
        self.first = layers.Conv1D(width, 5, padding="same")
        self.convolutions = [layers.Conv1D(width, 3, padding="same") for _ in range(depth)]
        self.norms = [layers.BatchNormalization() for _ in range(depth)]
        self.pool = layers.GlobalAveragePooling1D()
        self.out = layers.Dense(len(words))

    def call(self, x, training=False):
        x = self.first(x)
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = x + tf.nn.relu(norm(convolution(x), training=training))
        return self.out(self.pool(x))


model = WordNet()
optimizer = keras.optimizers.Adam(1e-3)
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
mean_loss = keras.metrics.Mean()


def train_step(x, y):  # bottleneck
    with tf.GradientTape() as tape:
        loss = loss_fn(y, model(x, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    mean_loss.update_state(loss)


started = time.perf_counter()
for epoch in range(args.epochs):
    mean_loss.reset_state()
    for x, y in dataset:
        train_step(x, y)
    print(f"epoch {epoch + 1}: loss {float(mean_loss.result()):.4f}")
seconds = time.perf_counter() - started

print(f"loss {float(mean_loss.result()):.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(files) * args.epochs} samples in {seconds:.2f} s")
