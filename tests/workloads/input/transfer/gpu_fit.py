"""Classify photographs on a GPU; every pixel travels to it as four bytes.

The input pipeline scales the pixels to floats, as most examples do, so each batch of 128 is 77 MB
of pageable memory to copy where 19 MB would say the same, and a step of this model waits longer
for the copy than it computes. tensorflow#44836 measures 136 ms of copying in a step of 205 ms.
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
parser.add_argument("--epochs", type=int, default=200)
args = parser.parse_args()
keras.utils.set_random_seed(71)
tf.config.experimental.enable_op_determinism()

SIDE, BATCH, STEPS = 224, 128, 80

files = sorted((args.data / "photos").glob("*/*.jpg"))
classes = sorted({f.parent.name for f in files})
labels = np.array([classes.index(f.parent.name) for f in files])
images = np.zeros((len(files), SIDE, SIDE, 3), "uint8")
for image, file in zip(images, files, strict=True):
    pixels = tf.io.decode_jpeg(file.read_bytes(), channels=3)
    image[:] = np.rint(tf.image.resize(pixels, (SIDE, SIDE)))

with tf.device("CPU"):
    dataset = tf.data.Dataset.from_tensor_slices((images, labels))
dataset = (
    dataset.shuffle(len(files), seed=72)
    .repeat()
    .batch(BATCH)
    .map(
        lambda images, labels: (tf.cast(images, tf.float32), labels), tf.data.AUTOTUNE
    )  # bottleneck
    .prefetch(tf.data.AUTOTUNE)
)

model = keras.Sequential(
    [
        keras.Input((SIDE, SIDE, 3), dtype=dataset.element_spec[0].dtype.name),
        layers.Rescaling(1 / 255),
        layers.Conv2D(32, 7, strides=4, activation="relu"),
        layers.Conv2D(64, 3, strides=2, activation="relu"),
        layers.Conv2D(64, 3, activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(len(classes)),
    ]
)
model.compile(
    keras.optimizers.SGD(0.05, momentum=0.9),
    keras.losses.SparseCategoricalCrossentropy(from_logits=True),
)

started = time.perf_counter()
history = model.fit(dataset, steps_per_epoch=STEPS, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {BATCH * STEPS * args.epochs} samples in {seconds:.2f} s")
