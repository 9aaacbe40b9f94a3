"""Classify photographs with a patch mixer; each byte of a pixel travels as a float of eight.

``images / 255.0`` is the first line of most examples. In NumPy it makes float64: the array in
memory is eight times as large, and so is every batch that is picked, mirrored, handed over to
TensorFlow and only there narrowed to what the model computes with.
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
keras.utils.set_random_seed(30)

SIDE, PATCH = 224, 16

files = sorted((args.data / "photos").glob("*/*.jpg"))
classes = sorted({f.parent.name for f in files})
labels = np.array([classes.index(f.parent.name) for f in files])
images = np.zeros((len(files), SIDE, SIDE, 3), "uint8")
for image, file in zip(images, files, strict=True):
    pixels = tf.io.decode_jpeg(file.read_bytes(), channels=3)
    image[:] = np.rint(tf.image.resize(pixels, (SIDE, SIDE)))
images = images / 255.0  # bottleneck


class Photos(keras.utils.PyDataset):
    """Batches of 32 photographs drawn at random, half of them mirrored."""

    def __init__(self):
        super().__init__(workers=1)
        self.epoch = 0

    def __len__(self):
        return 60

    def on_epoch_end(self):
        self.epoch += 1

    def __getitem__(self, index):
        rows = np.random.default_rng((self.epoch, index)).permutation(len(images))[:32]
        batch = images[rows]
        batch[:16] = batch[:16, :, ::-1]
        return batch, labels[rows]


pixels = keras.Input((SIDE, SIDE, 3), dtype=images.dtype.name)
x = layers.Conv2D(32, PATCH, strides=PATCH, activation="relu")(pixels)
x = layers.Reshape((-1, 32))(x)
x = layers.Dense(64, activation="relu")(x)
x = layers.GlobalAveragePooling1D()(x)
model = keras.Model(pixels, layers.Dense(len(classes))(x))
model.compile(
    keras.optimizers.AdamW(1e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
)
dataset = Photos()

started = time.perf_counter()
history = model.fit(dataset, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {32 * len(dataset) * args.epochs} samples in {seconds:.2f} s")
