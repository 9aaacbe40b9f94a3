"""Classify photographs that are decoded and carefully shrunk again in every epoch.

Nothing random happens before the network, and 480 small pictures take 37 MB: from the second epoch
on they could come out of memory. Pipelines that grew out of ImageNet scripts leave ``cache`` out,
since there it would not fit; the tf.data performance guide has it as its own section.
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
keras.utils.set_random_seed(131)

paths = sorted(str(p) for p in (args.data / "photos").glob("*/*.jpg"))
classes = sorted(p.name for p in (args.data / "photos").iterdir())
labels = [classes.index(Path(p).parent.name) for p in paths]


def load(path, label):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    image = tf.image.resize(image, (160, 160), method="lanczos3", antialias=True)
    return tf.cast(tf.clip_by_value(image, 0.0, 255.0), tf.uint8), label


dataset = (
    tf.data.Dataset.from_tensor_slices((paths, labels))
    .shuffle(len(paths), seed=132)
    .map(load, num_parallel_calls=tf.data.AUTOTUNE)  # bottleneck
    .batch(16)
    .prefetch(tf.data.AUTOTUNE)
)

inputs = keras.Input((160, 160, 3), dtype="uint8")
x = keras.layers.Rescaling(1 / 127.5, offset=-1)(inputs)
x = keras.layers.Conv2D(16, 5, strides=4, activation="relu")(x)
x = keras.layers.MaxPooling2D()(x)
x = keras.layers.Conv2D(32, 3, activation="relu")(x)
x = keras.layers.GlobalAveragePooling2D()(x)
model = keras.Model(inputs, keras.layers.Dense(len(classes))(x))
model.compile(
    keras.optimizers.Adam(1e-3),
    keras.losses.SparseCategoricalCrossentropy(from_logits=True),
)

started = time.perf_counter()
history = model.fit(dataset, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(paths) * args.epochs} samples in {seconds:.2f} s")
