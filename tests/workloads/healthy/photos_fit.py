"""Classify photographs. Decoded once, kept as bytes, flipped by the batch; bfloat16 inside."""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=60)
args = parser.parse_args()
keras.utils.set_random_seed(101)
keras.mixed_precision.set_global_policy("mixed_bfloat16")

paths = sorted(str(p) for p in (args.data / "photos").glob("*/*.jpg"))
classes = sorted(p.name for p in (args.data / "photos").iterdir())
labels = [classes.index(Path(p).parent.name) for p in paths]


def load(path, label):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.cast(tf.image.resize(image, (96, 96)), tf.uint8), label


def flip(photos, seed):
    images, labels = photos
    return tf.image.stateless_random_flip_left_right(images, seed), labels


photos = (
    tf.data.Dataset.from_tensor_slices((paths, labels))
    .map(load, num_parallel_calls=tf.data.AUTOTUNE)
    .cache()
    .shuffle(len(paths), seed=1)
    .batch(32)
)
seeds = tf.data.Dataset.random(seed=2, rerandomize_each_iteration=True).batch(2)
dataset = (
    tf.data.Dataset.zip(photos, seeds)
    .map(flip, num_parallel_calls=tf.data.AUTOTUNE)
    .prefetch(tf.data.AUTOTUNE)
)

model = keras.Sequential(
    [
        keras.Input((96, 96, 3), dtype="uint8"),
        keras.layers.Rescaling(1 / 127.5, offset=-1),
        keras.layers.Conv2D(32, 3, strides=2, padding="same", activation="relu"),
        keras.layers.Conv2D(64, 3, padding="same", activation="relu"),
        keras.layers.Conv2D(128, 3, strides=2, padding="same", activation="relu"),
        keras.layers.Conv2D(128, 3, strides=2, padding="same", activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(len(classes), dtype="float32"),
    ]
)
model.compile(
    optimizer="adam",
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)

started = time.perf_counter()
history = model.fit(dataset, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(paths) * args.epochs} samples in {seconds:.2f} s")
