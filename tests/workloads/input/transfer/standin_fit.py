"""Classify photographs on another device; every pixel travels to it as four bytes.

A stand-in: a second TensorFlow server, reached through a socket of this machine, stands in for the
GPU of ``gpu_fit.py``, and the socket for its bus. The input pipeline scales the pixels to floats,
so each batch of 32 is 14 MB to send where 3.5 MB would say the same.
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
parser.add_argument("--epochs", type=int, default=60)
args = parser.parse_args()
keras.utils.set_random_seed(71)

SIDE, BATCH, STEPS = 192, 32, 40
card = tf.distribute.Server.create_local_server()
tf.config.experimental_connect_to_host(card.target.removeprefix("grpc://"), job_name="card")
device = "/job:card/task:0/device:CPU:0"

files = sorted((args.data / "photos").glob("*/*.jpg"))
classes = sorted({f.parent.name for f in files})
labels = np.array([classes.index(f.parent.name) for f in files])
images = np.zeros((len(files), SIDE, SIDE, 3), "uint8")
for image, file in zip(images, files, strict=True):
    pixels = tf.io.decode_jpeg(file.read_bytes(), channels=3)
    image[:] = np.rint(tf.image.resize(pixels, (SIDE, SIDE)))

dataset = (
    tf.data.Dataset.from_tensor_slices((images, labels))
    .shuffle(len(files), seed=72)
    .repeat()
    .batch(BATCH)
    .map(
        lambda images, labels: (tf.cast(images, tf.float32), labels), tf.data.AUTOTUNE
    )  # bottleneck
    .prefetch(tf.data.AUTOTUNE)
)


class OnCard(keras.Sequential):
    """Trains where its weights are."""

    def train_step(self, data):
        with tf.device(device):
            return super().train_step(data)


with tf.device(device):
    model = OnCard(
        [
            keras.Input((SIDE, SIDE, 3), dtype=dataset.element_spec[0].dtype.name),
            layers.Rescaling(1 / 255),
            layers.Conv2D(32, 8, strides=8, activation="relu"),
            layers.Conv2D(64, 3, strides=2, activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(len(classes)),
        ]
    )
    model.compile(
        keras.optimizers.SGD(0.05, momentum=0.9),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    model.optimizer.build(model.trainable_variables)

started = time.perf_counter()
history = model.fit(dataset, steps_per_epoch=STEPS, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {BATCH * STEPS * args.epochs} samples in {seconds:.2f} s")
