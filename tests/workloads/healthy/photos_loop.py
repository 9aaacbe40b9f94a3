"""Classify photographs with an own training step.

Separable convolutions: their kernels on a CPU are slower in bfloat16, so this one stays in float32.
"""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf
from keras import layers


def load(path, label):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.cast(tf.image.resize(image, (96, 96)), tf.uint8), label


def build(classes):
    inputs = keras.Input((96, 96, 3), dtype="uint8")
    x = layers.Rescaling(1 / 255)(inputs)
    x = layers.Conv2D(32, 3, strides=2, padding="same", activation="relu")(x)
    for filters, strides in ((64, 1), (128, 2), (128, 1), (256, 2)):
        x = layers.SeparableConv2D(filters, 3, strides, padding="same", activation="relu")(x)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, layers.Dense(classes)(x))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--epochs", type=int, default=60)
    args = parser.parse_args()
    keras.utils.set_random_seed(102)

    photos = sorted((args.data / "photos").glob("*/*.jpg"))
    names = sorted({photo.parent.name for photo in photos})
    labels = [names.index(photo.parent.name) for photo in photos]
    dataset = (
        tf.data.Dataset.from_tensor_slices(([str(photo) for photo in photos], labels))
        .map(load, num_parallel_calls=tf.data.AUTOTUNE)
        .cache()
        .shuffle(len(photos), seed=1)
        .batch(32)
        .prefetch(tf.data.AUTOTUNE)
    )

    model = build(len(names))
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True)
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
        for images, labels in dataset:
            loss = train_step(images, labels)
        print(f"epoch {epoch + 1}: loss {loss:.4f}")
    loss = float(loss)
    seconds = time.perf_counter() - started

    print(f"loss {loss:.4f}")
    model.save_weights("trained.weights.h5")
    print(f"trained {len(photos) * args.epochs} samples in {seconds:.2f} s")


if __name__ == "__main__":
    main()
