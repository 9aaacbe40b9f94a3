"""Teach an autoencoder to repair photographs; every core spoils pictures."""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf

SIDE, PASSES = 128, 4
STEPS = PASSES * 30  # in an epoch

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=12)
args = parser.parse_args()
keras.utils.set_random_seed(3)


def parse(record):
    example = tf.io.parse_single_example(record, {"image": tf.io.FixedLenFeature([], tf.string)})
    image = tf.io.decode_jpeg(example["image"], channels=3)
    return tf.cast(tf.image.resize(image, (SIDE, SIDE)), tf.uint8)


def spoil(image, seed):
    """Return the picture as an old, badly compressed print, and the picture."""
    poor = tf.image.stateless_random_jpeg_quality(image, 15, 60, seed)
    poor = tf.image.convert_image_dtype(poor, tf.float32)
    poor = tf.image.stateless_random_hue(poor, 0.1, seed)
    poor = tf.image.stateless_random_saturation(poor, 0.3, 1.0, seed)
    poor = tf.image.stateless_random_contrast(poor, 0.5, 1.0, seed)
    poor += tf.random.stateless_normal((SIDE, SIDE, 3), seed, stddev=0.05)
    return poor, tf.image.convert_image_dtype(image, tf.float32)


shards = sorted(str(p) for p in (args.data / "records").glob("*.tfrecord"))
photos = tf.data.TFRecordDataset(shards).map(parse, num_parallel_calls=tf.data.AUTOTUNE).cache()
seeds = tf.data.Dataset.random(seed=4, rerandomize_each_iteration=True).batch(2)
dataset = (
    tf.data.Dataset.zip(photos.shuffle(480, seed=5).repeat(PASSES * args.epochs), seeds)
    .map(spoil, num_parallel_calls=tf.data.AUTOTUNE)
    .batch(16)
    .prefetch(tf.data.AUTOTUNE)
)

layers = keras.layers
model = keras.Sequential(
    [
        keras.Input((SIDE, SIDE, 3)),
        layers.Conv2D(12, 5, strides=4, padding="same", activation="relu"),
        layers.Conv2D(16, 3, padding="same", activation="relu"),
        layers.Conv2DTranspose(3, 4, strides=4, padding="same"),
    ]
)
optimizer = keras.optimizers.Adam(1e-3)


@tf.function
def train_step(poor, good):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.abs(model(poor, training=True) - good))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply(gradients, model.trainable_variables)
    return loss


samples = 0
started = time.perf_counter()
for step, (poor, good) in enumerate(dataset, 1):
    loss = train_step(poor, good)
    samples += len(good)
    if step % STEPS == 0:
        print(f"epoch {step // STEPS}: loss {float(loss):.4f}")
seconds = time.perf_counter() - started

print(f"loss {float(loss):.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {samples} samples in {seconds:.2f} s")
