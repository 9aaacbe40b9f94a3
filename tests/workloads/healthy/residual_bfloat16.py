"""Classify photographs with a small residual network whose products run in bfloat16."""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf
from keras import layers

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=60)
args = parser.parse_args()
keras.utils.set_random_seed(118)
keras.mixed_precision.set_global_policy("mixed_bfloat16")

train = keras.utils.image_dataset_from_directory(
    args.data / "photos", image_size=(64, 64), batch_size=None, shuffle=False
)
dataset = train.cache().shuffle(480, seed=1).batch(24).prefetch(tf.data.AUTOTUNE)


def unit(x, filters, strides):
    """Two convolutions and a short cut."""
    short = x
    if strides > 1 or x.shape[-1] != filters:
        short = layers.Conv2D(filters, 1, strides=strides)(x)
    x = layers.Conv2D(filters, 3, strides=strides, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization(momentum=0.9)(x)
    x = layers.ReLU()(x)
    x = layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization(momentum=0.9)(x)
    return layers.ReLU()(layers.Add()([x, short]))


inputs = keras.Input((64, 64, 3))
x = layers.Rescaling(1 / 255)(inputs)
x = layers.Conv2D(32, 3, strides=2, padding="same", activation="relu")(x)
x = unit(x, 64, 1)
x = unit(x, 128, 2)
x = unit(x, 256, 2)
x = layers.GlobalAveragePooling2D()(x)
model = keras.Model(inputs, layers.Dense(10, dtype="float32")(x))
model.compile(
    optimizer=keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)

started = time.perf_counter()
history = model.fit(dataset, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {480 * args.epochs} samples in {seconds:.2f} s")
