"""Classify photographs by a network whose first maps are large, 48 MB for a batch.

The pixels lie in memory, the step is compiled and keeps the cores busy. But glibc, whose allocator
TensorFlow asks for the memory of every tensor, gives pieces of this size back to the operating
system as soon as they are freed; in the next step they are made anew, filled with zeros page by
page. A third of the CPU time is the kernel's. TensorFlow's own advice for CPUs is another allocator
(tcmalloc, by LD_PRELOAD), which hardly anybody has heard of.
"""

import argparse
import time
from pathlib import Path

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
history = model.fit(dataset, epochs=args.epochs, verbose=2)  # brake
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(paths) // BATCH * BATCH * args.epochs} samples in {seconds:.2f} s")
