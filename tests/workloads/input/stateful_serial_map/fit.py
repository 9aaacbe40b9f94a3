"""Classify photographs with random colours; the random map runs on one thread.

TensorFlow makes a map parallel by itself, but only if its function is stateless: with ``tf.image.
random_*`` or ``tf.random.*`` in it the map stays serial, and nothing says so. People come here by
adding augmentation to a pipeline that was fast without it (tensorflow#13932 asks for parallel
random maps that stay reproducible).
"""

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


def augment(image, label):
    image = tf.image.random_jpeg_quality(image, 40, 95)
    image = tf.image.resize(image, (112, 112)) / 255.0
    image = tf.image.random_flip_left_right(image)
    image = tf.image.random_hue(image, 0.05)
    image = tf.image.random_saturation(image, 0.7, 1.4)
    image = tf.image.random_contrast(image, 0.7, 1.4)
    image += tf.random.normal((112, 112, 3), stddev=0.03)
    return image, label


dataset = (
    tf.data.Dataset.from_tensor_slices((paths, labels))
    .map(load, num_parallel_calls=tf.data.AUTOTUNE)
    .cache()
    .shuffle(len(paths), seed=12)
    .map(augment)  # bottleneck
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
