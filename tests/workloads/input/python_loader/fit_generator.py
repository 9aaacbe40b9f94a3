"""Classify photographs of which a generator given to ``fit`` makes whole batches.

Years of tutorials end in ``fit_generator``, and the generator outlived it: ``while True``, an order
drawn anew, pictures opened with Pillow, ``yield np.stack(...)``. Keras reads it on one thread,
a batch ahead. Many threads ask why training on images is slow so, and why ``workers`` does nothing:
it never did for a plain generator.
"""

import argparse
import time
from pathlib import Path

import keras
import numpy as np
from PIL import Image

SIDE, BATCH = 128, 16

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=40)
args = parser.parse_args()
keras.utils.set_random_seed(33)

paths = sorted((args.data / "photos").glob("*/*.jpg"))
classes = sorted({p.parent.name for p in paths})
labels = np.array([classes.index(p.parent.name) for p in paths])


def load(path, rng):
    """Crop a photograph at random."""
    image = Image.open(path).convert("RGB")
    side = int(rng.integers(200, 375))
    left = int(rng.integers(0, image.width - side + 1))
    top = int(rng.integers(0, image.height - side + 1))
    image = image.crop((left, top, left + side, top + side))
    return np.asarray(image.resize((SIDE, SIDE), Image.Resampling.BILINEAR), np.float32) / 255.0


def batches():
    """Go through all photographs again and again, each time in another order."""
    rng = np.random.default_rng(33)
    while True:
        order = rng.permutation(len(paths))
        for begin in range(0, len(paths), BATCH):
            chosen = order[begin : begin + BATCH]
            yield np.stack([load(paths[i], rng) for i in chosen]), labels[chosen]  # bottleneck


model = keras.Sequential(
    [
        keras.Input((SIDE, SIDE, 3)),
        keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
        keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
        keras.layers.Flatten(),
        keras.layers.Dense(len(classes)),
    ]
)
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.Adam(1e-4), loss_fn)

steps = len(paths) // BATCH
started = time.perf_counter()
history = model.fit(batches(), steps_per_epoch=steps, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {steps * BATCH * args.epochs} samples in {seconds:.2f} s")
