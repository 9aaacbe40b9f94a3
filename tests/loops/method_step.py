"""Recognise spoken words; the compiled step is a method, under ``@tf.function``.

Sound becomes a spectrogram in a map that works on one recording at a time.
"""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf
from keras import layers

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=30)
args = parser.parse_args()
keras.utils.set_random_seed(208)

files = sorted((args.data / "speech").glob("*/*.wav"))
words = sorted({file.parent.name for file in files})
labels = [words.index(file.parent.name) for file in files]
mel = tf.signal.linear_to_mel_weight_matrix(64, 513, 16_000)


def spectrogram(path, label):
    sound, _ = tf.audio.decode_wav(tf.io.read_file(path), 1, 16_000)
    power = tf.abs(tf.signal.stft(sound[:, 0], 1024, 64)) ** 2
    return tf.math.log(power @ mel + 1e-6), label


class Trainer:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
        self.error = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self.losses = keras.metrics.Mean()

    @tf.function
    def step(self, x, y):
        with tf.GradientTape() as tape:
            loss = self.error(y, self.model(x, training=True))
        gradients = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables, strict=True))
        self.losses.update_state(loss)

    def epoch(self, dataset):
        self.losses.reset_state()
        for x, y in dataset:
            self.step(x, y)
        return float(self.losses.result())


dataset = (
    tf.data.Dataset.from_tensor_slices(([str(file) for file in files], labels))
    .map(spectrogram)  # bottleneck: serial_map
    .shuffle(len(files), seed=8)
    .batch(20)
    .prefetch(tf.data.AUTOTUNE)
)
model = keras.Sequential(
    [
        keras.Input((None, 64)),
        layers.Conv1D(32, 7, strides=3, activation="relu"),
        layers.Conv1D(48, 5, strides=3, activation="relu"),
        layers.GlobalAveragePooling1D(),
        layers.Dropout(0.2, seed=8),
        layers.Dense(len(words)),
    ]
)
trainer = Trainer(model, keras.optimizers.Adam(1e-3))

started = time.perf_counter()
for epoch in range(args.epochs):
    loss = trainer.epoch(dataset)
    print(f"epoch {epoch + 1}: loss {loss:.6f}")
seconds = time.perf_counter() - started

print(f"loss {loss:.6f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(files) * args.epochs} samples in {seconds:.2f} s")
