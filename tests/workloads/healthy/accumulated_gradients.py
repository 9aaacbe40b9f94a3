"""Sharpen blurred photographs; four batches that fit into memory make one update."""

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
keras.utils.set_random_seed(120)
keras.mixed_precision.set_global_policy("mixed_bfloat16")

files = sorted(str(file) for file in (args.data / "photos").glob("*/*.jpg"))


def load(path):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    sharp = tf.image.resize(image, (96, 128), antialias=True)
    blurred = tf.image.resize(tf.image.resize(sharp, (24, 32), antialias=True), (96, 128))
    return blurred / 255, sharp / 255


dataset = (
    tf.data.Dataset.from_tensor_slices(files)
    .map(load, num_parallel_calls=tf.data.AUTOTUNE)
    .cache()
    .shuffle(len(files), seed=1)
    .batch(10)
    .prefetch(tf.data.AUTOTUNE)
)

inputs = keras.Input((96, 128, 3))
x = layers.Conv2D(48, 5, strides=2, padding="same", activation="relu")(inputs)
x = layers.Conv2D(96, 3, padding="same", activation="relu")(x)
x = layers.Conv2DTranspose(32, 4, strides=2, padding="same", activation="relu")(x)
change = layers.Conv2D(3, 3, padding="same", dtype="float32")(x)
model = keras.Model(inputs, layers.Add(dtype="float32")([inputs, change]))
model.compile(
    optimizer=keras.optimizers.Adam(1e-3, gradient_accumulation_steps=4),
    loss="mean_absolute_error",
)

started = time.perf_counter()
history = model.fit(dataset, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(files) * args.epochs} samples in {seconds:.2f} s")
