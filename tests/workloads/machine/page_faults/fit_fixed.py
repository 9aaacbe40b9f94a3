"""Classify photographs; the allocator keeps what is freed, and hands it out again.

This must be said before any thread asks for memory, and so before TensorFlow is imported.
"""
# ruff: noqa: E402  # the allocator is set before TensorFlow starts its threads

import argparse
import ctypes
import time
from pathlib import Path

libc = ctypes.CDLL(None)
libc.mallopt(-8, 1)  # M_ARENA_MAX
libc.mallopt(-4, 0)  # M_MMAP_MAX
libc.mallopt(-1, -1)  # M_TRIM_THRESHOLD

import keras
import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=40)
args = parser.parse_args()
keras.utils.set_random_seed(44)

SIDE, BATCH = 112, 60
paths = sorted((args.data / "photos").glob("*/*.jpg"))
classes = sorted({path.parent.name for path in paths})
labels = [classes.index(path.parent.name) for path in paths]
images = np.stack(
    [np.asarray(keras.utils.load_img(path, target_size=(SIDE, SIDE))) for path in paths]
)

dataset = (
    tf.data.Dataset.from_tensor_slices((images, labels))
    .shuffle(len(paths), seed=44)
    .batch(BATCH, drop_remainder=True)
    .prefetch(tf.data.AUTOTUNE)
)

model = keras.Sequential(
    [
        keras.Input((SIDE, SIDE, 3)),
        keras.layers.Rescaling(1 / 255),
        keras.layers.Conv2D(16, 3, padding="same", activation="hard_silu"),
        keras.layers.MaxPooling2D(4),
        keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(len(classes)),
    ]
)
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))

started = time.perf_counter()
history = model.fit(dataset, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(paths) // BATCH * BATCH * args.epochs} samples in {seconds:.2f} s")
