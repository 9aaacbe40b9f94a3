"""Classify photographs from record files, read side by side and decoded once."""

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
keras.utils.set_random_seed(103)
keras.mixed_precision.set_global_policy("mixed_bfloat16")

COUNT = 480
SHAPE = (72, 96, 3)
FEATURES = {
    "image": tf.io.FixedLenFeature([], tf.string),
    "label": tf.io.FixedLenFeature([], tf.int64),
}


def parse(record):
    example = tf.io.parse_single_example(record, FEATURES)
    image = tf.io.decode_jpeg(example["image"], channels=3)
    return tf.cast(tf.image.resize(image, SHAPE[:2]), tf.uint8), example["label"]


files = tf.data.Dataset.list_files(str(args.data / "records" / "*.tfrecord"), shuffle=False)
dataset = (
    files.interleave(tf.data.TFRecordDataset, cycle_length=4, num_parallel_calls=tf.data.AUTOTUNE)
    .map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    .cache()
    .shuffle(COUNT, seed=1)
    .batch(24)
    .prefetch(tf.data.AUTOTUNE)
)

inputs = keras.Input(SHAPE, dtype="uint8")
x = layers.Rescaling(1 / 255)(inputs)
x = layers.Conv2D(32, 5, strides=2, padding="same", activation="relu")(x)
for filters in (64, 128, 256):
    x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
    x = layers.MaxPooling2D()(x)
x = layers.Flatten()(x)
outputs = layers.Dense(10, dtype="float32")(x)
model = keras.Model(inputs, outputs)
model.compile(
    optimizer=keras.optimizers.AdamW(3e-4, weight_decay=1e-4),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
)

started = time.perf_counter()
history = model.fit(dataset, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {COUNT * args.epochs} samples in {seconds:.2f} s")
