"""Classify photographs; flips, colours and blur are varied by the first layers of the model.

The guide to preprocessing layers names augmentation inside the model first: it travels with the
saved model, and an accelerator would do it. Here it is part of every training step, which waits
for it, while the input pipeline stands idle with the next batch. What the layers cost was
measured in https://github.com/keras-team/keras/issues/23245.
"""

import argparse
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from keras import layers

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=40)
args = parser.parse_args()
keras.utils.set_random_seed(3)

SIZE = 128
files = sorted((args.data / "photos").glob("*/*.jpg"))
names = sorted({file.parent.name for file in files})
labels = np.array([names.index(file.parent.name) for file in files])


def decode(file):
    image = tf.io.decode_jpeg(tf.io.read_file(file), channels=3)
    return tf.cast(tf.image.resize(image, (SIZE, SIZE)), tf.uint8)


# All photographs fit in memory: decoded once, before training.
photos = tf.data.Dataset.from_tensor_slices([str(file) for file in files])
photos = photos.map(decode, tf.data.AUTOTUNE).batch(len(files)).get_single_element()

augment = keras.Sequential(
    [
        layers.RandomFlip("horizontal", seed=1),
        layers.RandomSaturation(0.6, value_range=(0, 255), seed=2),
        layers.RandomGaussianBlur(0.5, value_range=(0, 255), seed=3),
    ]
)
train = (
    tf.data.Dataset.from_tensor_slices((photos, labels))
    .shuffle(len(files), seed=3)
    .batch(32)
    .prefetch(tf.data.AUTOTUNE)
)

model = keras.Sequential(
    [
        keras.Input((SIZE, SIZE, 3)),
        augment,  # brake
        layers.Rescaling(1 / 255),
        layers.Conv2D(16, 3, strides=2, activation="relu"),
        layers.Conv2D(24, 3, activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(32, 3, activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(len(names)),
    ]
)
model.compile(
    optimizer=keras.optimizers.Adam(1e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
)

start = time.perf_counter()
history = model.fit(train, epochs=args.epochs, verbose=2)
elapsed = time.perf_counter() - start

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(files) * args.epochs} samples in {elapsed:.2f} s")
