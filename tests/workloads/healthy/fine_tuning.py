"""Fit a new head on a frozen MobileNetV2.

The crops are random, so that what the base says of a photograph cannot be computed once and kept.
The base's weights are as initialised here, where a user would load those of ImageNet: no file has
to be fetched, and the arithmetic is the same.
"""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=60)
args = parser.parse_args()
keras.utils.set_random_seed(119)

paths = sorted(str(p) for p in (args.data / "photos").glob("*/*.jpg"))
classes = sorted(p.name for p in (args.data / "photos").iterdir())
labels = [classes.index(Path(p).parent.name) for p in paths]


def load(path, label):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.cast(tf.image.resize(image, (112, 112)), tf.uint8), label


def crop(photos, seed):
    images, labels = photos
    return tf.image.stateless_random_crop(images, (tf.shape(images)[0], 96, 96, 3), seed), labels


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
    .map(crop, num_parallel_calls=tf.data.AUTOTUNE)
    .prefetch(tf.data.AUTOTUNE)
)

base = keras.applications.MobileNetV2((96, 96, 3), include_top=False, weights=None, pooling="avg")
base.trainable = False

inputs = keras.Input((96, 96, 3), dtype="uint8")
x = keras.layers.Rescaling(1 / 127.5, offset=-1)(inputs)
x = base(x, training=False)
x = keras.layers.Dropout(0.2, seed=3)(x)
model = keras.Model(inputs, keras.layers.Dense(len(classes))(x))
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))

started = time.perf_counter()
history = model.fit(dataset, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(paths) * args.epochs} samples in {seconds:.2f} s")
