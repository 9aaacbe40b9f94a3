"""Classify photographs that TensorFlow decodes on every core."""

import argparse
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

SIDE, BATCH = 128, 16

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=40)
args = parser.parse_args()
keras.utils.set_random_seed(33)

paths = sorted((args.data / "photos").glob("*/*.jpg"))
classes = sorted({p.parent.name for p in paths})
labels = np.array([classes.index(p.parent.name) for p in paths])


def load(example, seed):
    """Crop a photograph at random."""
    path, label = example
    data = tf.io.read_file(path)
    shape = tf.io.extract_jpeg_shape(data)
    side = tf.random.stateless_uniform((1,), seed, 200, 375, tf.int32)
    room = tf.cast(shape[:2] - side + 1, tf.float32)
    corner = tf.cast(tf.random.stateless_uniform((2,), seed) * room, tf.int32)
    window = tf.concat([corner, side, side], 0)
    image = tf.image.decode_and_crop_jpeg(data, window, channels=3)
    return tf.image.resize(image, (SIDE, SIDE)) / 255.0, label


files = tf.data.Dataset.from_tensor_slices(([str(p) for p in paths], labels))
seeds = tf.data.Dataset.random(seed=33, rerandomize_each_iteration=True).batch(2)
dataset = tf.data.Dataset.zip(files.shuffle(len(paths), seed=34), seeds)
dataset = dataset.map(load, num_parallel_calls=tf.data.AUTOTUNE)
dataset = dataset.batch(BATCH).prefetch(tf.data.AUTOTUNE)

model = keras.Sequential(
    [
        keras.Input((SIDE, SIDE, 3)),
        keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
        keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
        keras.layers.Flatten(),
        keras.layers.Dense(len(classes)),
    ]
)
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.Adam(1e-4), loss_fn)

steps = len(paths) // BATCH
started = time.perf_counter()
history = model.fit(dataset, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {steps * BATCH * args.epochs} samples in {seconds:.2f} s")
