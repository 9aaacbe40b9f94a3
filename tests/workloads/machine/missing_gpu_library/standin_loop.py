"""Classify photographs with separable convolutions, without the library of fast kernels.

A stand-in for a missing cuDNN: oneDNN is to the CPU what cuDNN is to the GPU, the library of deep
learning kernels, and without it TensorFlow goes on with its own slow ones and one line in the log,
exactly as it does when it "Cannot dlopen some GPU libraries" (tensorflow/tensorflow#60646). Here
the library is linked in and switched off, in the way that its own start message teaches; people
copy that line to be rid of the message (lllyasviel/stable-diffusion-webui-forge#1573).
"""

import argparse
import os
import time
from pathlib import Path

os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"  # bottleneck

import keras
import tensorflow as tf
from keras import layers

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=60)
args = parser.parse_args()
keras.utils.set_random_seed(14)

photos = sorted((args.data / "photos").glob("*/*.jpg"))
classes = sorted({photo.parent.name for photo in photos})
labels = [classes.index(photo.parent.name) for photo in photos]


def load(path, label):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.cast(tf.image.resize(image, (112, 112)), tf.uint8), label


dataset = (
    tf.data.Dataset.from_tensor_slices(([str(photo) for photo in photos], labels))
    .map(load, num_parallel_calls=tf.data.AUTOTUNE)
    .cache()
    .shuffle(len(photos), seed=1)
    .batch(32)
    .prefetch(tf.data.AUTOTUNE)
)

model = keras.Sequential(
    [
        keras.Input((112, 112, 3), dtype="uint8"),
        layers.Rescaling(1 / 127.5, offset=-1),
        layers.Conv2D(32, 3, strides=2, padding="same", activation="relu"),
        layers.SeparableConv2D(64, 3, padding="same", activation="relu"),
        layers.SeparableConv2D(128, 3, strides=2, padding="same", activation="relu"),
        layers.SeparableConv2D(128, 3, padding="same", activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(len(classes)),
    ]
)
loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = keras.optimizers.Adam(1e-3)
optimizer.build(model.trainable_variables)


@tf.function
def train_step(images, labels):
    with tf.GradientTape() as tape:
        loss = loss_of(labels, model(images, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


started = time.perf_counter()
for epoch in range(args.epochs):
    for images, batch_labels in dataset:
        loss = train_step(images, batch_labels)
    print(f"epoch {epoch + 1}: loss {loss:.4f}")
loss = float(loss)
seconds = time.perf_counter() - started

print(f"loss {loss:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(photos) * args.epochs} samples in {seconds:.2f} s")
