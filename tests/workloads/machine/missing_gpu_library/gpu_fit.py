# /// script
# requires-python = ">=3.10"
# dependencies = ["tensorflow==2.21.*"]  # bottleneck
# ///
"""Colour grey photographs on a machine with an NVIDIA driver but without the CUDA libraries.

The block above is what ``uv run`` or ``pipx run`` install. ``tensorflow`` alone brings no cuDNN,
cuBLAS and so on; where the system has none, TensorFlow says "Cannot dlopen some GPU libraries" once
among its other notices and trains on the CPU (tensorflow/tensorflow#60646, #110956). The extra
``and-cuda`` brings them. Run both scripts in the environments that their blocks describe. Made for
a machine with a GPU, so the work is far more than two cores do in seconds; on a GPU sums race, so
that weights repeat to rounding only.
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
keras.utils.set_random_seed(15)
keras.mixed_precision.set_global_policy("mixed_bfloat16")

paths = sorted(str(p) for p in (args.data / "photos").glob("*/*.jpg"))


def load(path):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    image = tf.image.resize(image, (96, 96))
    grey = tf.image.rgb_to_grayscale(image)
    return tf.cast(grey, tf.uint8), tf.cast(image, tf.uint8)


dataset = (
    tf.data.Dataset.from_tensor_slices(paths)
    .map(load, num_parallel_calls=tf.data.AUTOTUNE)
    .cache()
    .shuffle(len(paths), seed=1)
    .batch(32)
    .map(lambda grey, image: (grey, tf.cast(image, tf.float32) / 255))
    .prefetch(tf.data.AUTOTUNE)
)

model = keras.Sequential(
    [
        keras.Input((96, 96, 1), dtype="uint8"),
        keras.layers.Rescaling(1 / 255),
        keras.layers.Conv2D(64, 5, padding="same", activation="relu"),
        keras.layers.Conv2D(128, 3, strides=2, padding="same", activation="relu"),
        keras.layers.Conv2D(256, 3, padding="same", activation="relu"),
        keras.layers.Conv2DTranspose(64, 4, strides=2, padding="same", activation="relu"),
        keras.layers.Conv2D(3, 3, padding="same", activation="sigmoid", dtype="float32"),
    ]
)
model.compile(keras.optimizers.Adam(5e-4), loss="mean_absolute_error")

started = time.perf_counter()
history = model.fit(dataset, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(paths) * args.epochs} samples in {seconds:.2f} s")
