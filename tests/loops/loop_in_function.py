"""Classify photographs; a whole epoch is one call of a ``tf.function`` with the loop in it.

Python has nothing to do between the steps. But the photographs are decoded anew in every epoch.
"""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf
from keras import layers

SIDE = 96

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=20)
args = parser.parse_args()
keras.utils.set_random_seed(210)

files = sorted((args.data / "photos").glob("*/*.jpg"))
places = sorted({file.parent.name for file in files})
labels = [places.index(file.parent.name) for file in files]


def load(path, label):
    photo = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.image.resize(photo, (SIDE, SIDE)) / 255, label


dataset = (
    tf.data.Dataset.from_tensor_slices(([str(file) for file in files], labels))
    .map(load)  # bottleneck: cache_missing
    .shuffle(len(files), seed=10)
    .batch(16)
    .prefetch(tf.data.AUTOTUNE)
)

model = keras.Sequential(
    [
        keras.Input((SIDE, SIDE, 3)),
        layers.Conv2D(16, 5, strides=4, activation="relu"),
        layers.Conv2D(32, 3, strides=2, activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(len(places)),
    ]
)
optimizer = keras.optimizers.Adam(1e-3)
optimizer.build(model.trainable_variables)
error = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def train_epoch(batches):
    last = tf.constant(0.0)
    for x, y in batches:
        with tf.GradientTape() as tape:
            last = error(y, model(x, training=True))
        gradients = tape.gradient(last, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return last


started = time.perf_counter()
for epoch in range(args.epochs):
    loss = train_epoch(dataset)
    print(f"epoch {epoch + 1}: loss {loss:.6f}")
seconds = time.perf_counter() - started

print(f"loss {loss:.6f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(files) * args.epochs} samples in {seconds:.2f} s")
