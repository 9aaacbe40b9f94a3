"""Classify photographs from one random view of each; three more are made and thrown away.

The loader came with a self-supervised training, which compares several crops of every photograph.
Here the labels are known, and the map behind it takes the first crop and the label. TensorFlow runs
all of a map's function, whatever is done with its parts: all four are decoded and resized. That
datasets decode features which nobody looks at is why TensorFlow Datasets has `PartialDecoding`.
"""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf
from keras import layers

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=40)
args = parser.parse_args()
keras.utils.set_random_seed(60)

SIDE, PASSES = 96, 5
features = {
    "image": tf.io.FixedLenFeature((), tf.string),
    "label": tf.io.FixedLenFeature((), tf.int64),
}


def parse(record, seed):
    example = tf.io.parse_single_example(record, features)
    return example["image"], example["label"], seed


def view(jpeg, seed):
    size = tf.io.extract_jpeg_shape(jpeg)[:2]
    space = tf.cast(size, tf.float32) / 4
    corner = tf.cast(space * tf.random.stateless_uniform((2,), seed), tf.int32)
    window = tf.concat([corner, size * 3 // 4], axis=0)
    image = tf.image.decode_and_crop_jpeg(jpeg, window, channels=3)
    return tf.cast(tf.image.resize(image, (SIDE, SIDE)), tf.uint8)


def crops(jpeg, label, seeds):
    return {"label": label} | {f"crop {n}": view(jpeg, seeds[2 * n : 2 * n + 2]) for n in range(4)}


def labelled(views):
    return views["crop 0"], views["label"]


files = sorted(str(p) for p in (args.data / "records").glob("*.tfrecord"))
records = tf.data.TFRecordDataset(files, num_parallel_reads=len(files)).repeat(PASSES)
seeds = tf.data.Dataset.random(seed=61, rerandomize_each_iteration=True)
dataset = (
    tf.data.Dataset.zip((records, seeds.batch(8, drop_remainder=True)))
    .map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    .map(crops, num_parallel_calls=tf.data.AUTOTUNE)  # bottleneck
    .shuffle(64, seed=62)
    .map(labelled, num_parallel_calls=tf.data.AUTOTUNE)
    .batch(32)
    .prefetch(tf.data.AUTOTUNE)
)

model = keras.Sequential(
    [
        keras.Input((SIDE, SIDE, 3), dtype="uint8"),
        layers.Rescaling(1 / 255),
        layers.Conv2D(32, 3, strides=2, activation="relu"),
        layers.Conv2D(32, 3, strides=2, activation="relu"),
        layers.Conv2D(64, 3, activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(10),
    ]
)
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))

started = time.perf_counter()
history = model.fit(dataset, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

photos = len(list((args.data / "photos").glob("*/*.jpg")))
print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {photos * PASSES * args.epochs} samples in {seconds:.2f} s")
