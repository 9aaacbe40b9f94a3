"""Classify photographs in a loop on another device; every pixel travels to it as four bytes.

A stand-in: a second TensorFlow server, reached through a socket of this machine, stands in for a
GPU, and the socket for its bus. The input pipeline scales the pixels to floats, so each batch of 32
is 14 MB to send where 3.5 MB would say the same. This is ``standin_fit.py`` as a loop of its own.
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
parser.add_argument("--epochs", type=int, default=300)
args = parser.parse_args()
keras.utils.set_random_seed(73)

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


def scaled(pixels, targets):
    return tf.cast(pixels, tf.float32) / 255, targets


dataset = (
    tf.data.Dataset.from_tensor_slices((images, labels))
    .shuffle(len(files), seed=74)
    .repeat()
    .batch(BATCH)
    .map(scaled, tf.data.AUTOTUNE)  # bottleneck
    .prefetch(tf.data.AUTOTUNE)
)

with tf.device(device):
    model = keras.Sequential(
        [
            keras.Input((SIDE, SIDE, 3)),
            layers.AveragePooling2D(8),
            layers.Conv2D(32, 3, strides=2, activation="relu"),
            layers.Conv2D(64, 3, strides=2, activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(len(classes)),
        ]
    )
    optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
    optimizer.build(model.trainable_variables)
loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def train_step(pixels, targets):
    with tf.device(device):
        with tf.GradientTape() as tape:
            loss = loss_of(targets, model(pixels, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)
        return loss


batches = iter(dataset)
started = time.perf_counter()
for epoch in range(args.epochs):
    losses = [train_step(*next(batches)) for _ in range(STEPS)]
    last = float(tf.reduce_mean(losses))
    print(f"epoch {epoch + 1}: loss {last:.4f}")
seconds = time.perf_counter() - started

print(f"loss {last:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {BATCH * STEPS * args.epochs} samples in {seconds:.2f} s")
