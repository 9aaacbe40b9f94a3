"""Recognise spoken words by their spectrograms, which are computed once and kept."""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf
from keras import layers

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=60)
args = parser.parse_args()
keras.utils.set_random_seed(108)
keras.mixed_precision.set_global_policy("mixed_bfloat16")

files = sorted((args.data / "speech").glob("*/*.wav"))
words = sorted({file.parent.name for file in files})
labels = [words.index(file.parent.name) for file in files]


def spectrogram(path, label):
    sound, _ = tf.audio.decode_wav(tf.io.read_file(path), 1, 16_000)
    frames = tf.signal.stft(sound[:, 0], frame_length=256, frame_step=200)
    return tf.math.log(tf.abs(frames)[..., None] + 1e-3), label


dataset = (
    tf.data.Dataset.from_tensor_slices(([str(file) for file in files], labels))
    .map(spectrogram, num_parallel_calls=tf.data.AUTOTUNE)
    .cache()
    .shuffle(len(files), seed=1)
    .batch(24)
    .prefetch(tf.data.AUTOTUNE)
)

model = keras.Sequential(
    [
        keras.Input((79, 129, 1)),
        layers.Conv2D(32, 5, strides=2, activation="relu"),
        layers.Conv2D(64, 3, activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(128, 3, activation="relu"),
        layers.GlobalMaxPooling2D(),
        layers.Dense(len(words), dtype="float32"),
    ]
)
model.compile(
    optimizer=keras.optimizers.Nadam(1e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
)

started = time.perf_counter()
history = model.fit(dataset, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(files) * args.epochs} samples in {seconds:.2f} s")
