"""Classify photographs with random colours; every picture has a seed, every core works."""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=50)
args = parser.parse_args()
keras.utils.set_random_seed(11)

folders = sorted(p for p in (args.data / "photos").iterdir())
files = [(str(p), i) for i, folder in enumerate(folders) for p in sorted(folder.glob("*.jpg"))]
paths, labels = map(list, zip(*files, strict=True))


def load(path, label):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.cast(tf.image.resize(image, (320, 320)), tf.uint8), label


def augment(example, seed):
    image, label = example
    image = tf.image.stateless_random_jpeg_quality(image, 40, 95, seed)
    image = tf.image.resize(image, (112, 112)) / 255.0
    image = tf.image.stateless_random_flip_left_right(image, seed)
    image = tf.image.stateless_random_hue(image, 0.05, seed)
    image = tf.image.stateless_random_saturation(image, 0.7, 1.4, seed)
    image = tf.image.stateless_random_contrast(image, 0.7, 1.4, seed)
    image += tf.random.stateless_normal((112, 112, 3), seed, stddev=0.03)
    return image, label


photos = (
    tf.data.Dataset.from_tensor_slices((paths, labels))
    .map(load, num_parallel_calls=tf.data.AUTOTUNE)
    .cache()
    .shuffle(len(paths), seed=12)
)
seeds = tf.data.Dataset.random(seed=13, rerandomize_each_iteration=True).batch(2)
dataset = (
    tf.data.Dataset.zip(photos, seeds)
    .map(augment, num_parallel_calls=tf.data.AUTOTUNE)
    .batch(24)
    .repeat()
    .prefetch(tf.data.AUTOTUNE)
)

inputs = keras.Input((112, 112, 3))
x = inputs
for filters in (16, 32):
    x = keras.layers.Conv2D(filters, 3, strides=2, padding="same", activation="relu")(x)
outputs = keras.layers.Dense(len(folders))(keras.layers.GlobalMaxPooling2D()(x))
model = keras.Model(inputs, outputs)
model.compile(
    optimizer=keras.optimizers.SGD(0.02, momentum=0.9),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
)

started = time.perf_counter()
history = model.fit(dataset, steps_per_epoch=20, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(paths) * args.epochs} samples in {seconds:.2f} s")
