"""Classify photographs listed by TensorFlow; a fifth of the names is taken, the others train.

``list_files`` shuffles unless it is told not to, and does so anew in each pass: the names that the
validation takes are not those that the training skips. Both parts are kept by their caches, so some
photographs are in both for good. That ``list_files`` gives another order each time is documented,
and splits of it by ``take`` and ``skip`` are in many answers.
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
keras.utils.set_random_seed(174)

classes = sorted(p.name for p in (args.data / "photos").iterdir())


def load(path):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    image = tf.image.resize(image, (128, 128))
    label = tf.argmax(tf.strings.split(path, "/")[-2] == classes)
    return tf.cast(image, tf.uint8), label


paths = tf.data.Dataset.list_files(str(args.data / "photos/*/*.jpg"), seed=175)  # bottleneck
held_out = len(paths) // 5
training = (
    paths.skip(held_out)
    .map(load, num_parallel_calls=tf.data.AUTOTUNE)
    .cache()
    .shuffle(len(paths), seed=176)
    .batch(32)
    .prefetch(tf.data.AUTOTUNE)
)
validation = (
    paths.take(held_out)
    .map(load, num_parallel_calls=tf.data.AUTOTUNE)
    .cache()
    .batch(32)
    .prefetch(tf.data.AUTOTUNE)
)

inputs = keras.Input((128, 128, 3), dtype="uint8")
x = keras.layers.Rescaling(1 / 127.5, offset=-1)(inputs)
x = keras.layers.Conv2D(16, 5, strides=2, activation="relu")(x)
x = keras.layers.MaxPooling2D()(x)
x = keras.layers.Conv2D(32, 3, activation="relu")(x)
x = keras.layers.GlobalAveragePooling2D()(x)
model = keras.Model(inputs, keras.layers.Dense(len(classes))(x))
model.compile(
    keras.optimizers.Adam(1e-3),
    keras.losses.SparseCategoricalCrossentropy(from_logits=True),
)

started = time.perf_counter()
history = model.fit(training, validation_data=validation, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}, validated {history.history['val_loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {(len(paths) - held_out) * args.epochs} samples in {seconds:.2f} s")
