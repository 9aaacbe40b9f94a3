"""Classify photographs on every core that the machine gives."""

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
keras.utils.set_random_seed(16)
keras.mixed_precision.set_global_policy("mixed_bfloat16")

paths = sorted(str(p) for p in (args.data / "photos").glob("*/*.jpg"))
classes = sorted(p.name for p in (args.data / "photos").iterdir())
labels = [classes.index(Path(p).parent.name) for p in paths]


def load(path, label):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.cast(tf.image.resize(image, (72, 72)), tf.uint8), label


dataset = (
    tf.data.Dataset.from_tensor_slices((paths, labels))
    .map(load, num_parallel_calls=tf.data.AUTOTUNE)
    .cache()
    .shuffle(len(paths), seed=1)
    .batch(32)
    .prefetch(tf.data.AUTOTUNE)
)

model = keras.Sequential(
    [
        keras.Input((72, 72, 3), dtype="uint8"),
        layers.Rescaling(1 / 255),
        layers.Conv2D(32, 3, padding="same", activation="relu"),
        layers.Conv2D(64, 3, strides=2, padding="same", activation="relu"),
        layers.Conv2D(128, 3, strides=2, padding="same", activation="relu"),
        layers.Conv2D(128, 3, strides=2, padding="same", activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(len(classes), dtype="float32"),
    ]
)
model.compile(
    optimizer=keras.optimizers.SGD(0.02, momentum=0.9),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)

started = time.perf_counter()
history = model.fit(dataset, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(paths) * args.epochs} samples in {seconds:.2f} s")
