"""Classify photographs on two devices; the pipeline of each decodes all of them.

Every replica has its own pipeline and keeps its share of the examples, but ``shard`` stands behind
the decoding: what the others need is decoded too, and thrown away. The page of
``tf.data.Dataset.shard`` asks for the call as early as possible for this reason. The crops are
random, so no cache can help. Two logical CPUs stand in for two GPUs (or two hosts, each of which
would read everything).
"""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf
from keras import layers

PASSES = 3  # over the photographs in one epoch, each with crops of its own

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=60)
args = parser.parse_args()
keras.utils.set_random_seed(22)

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
replicas = strategy.num_replicas_in_sync

files = sorted(str(file) for file in (args.data / "records").glob("*.tfrecord"))
feature = {
    "image": tf.io.FixedLenFeature([], tf.string),
    "label": tf.io.FixedLenFeature([], tf.int64),
}


def load(record, seed):
    example = tf.io.parse_single_example(record, feature)
    image = tf.io.decode_jpeg(example["image"], channels=3)
    crop = tf.image.stateless_random_crop(image, (300, 300, 3), seed)
    return tf.image.resize(crop, (64, 64)) / 255.0, example["label"]


def pipeline(replica):
    records = tf.data.TFRecordDataset(files).cache().shuffle(480, seed=1).repeat(PASSES)
    seeds = tf.data.Dataset.random(seed=2, rerandomize_each_iteration=True).batch(2)
    return (
        tf.data.Dataset.zip(records, seeds)
        .map(load, num_parallel_calls=tf.data.AUTOTUNE)
        .shard(replicas, replica)  # bottleneck
        .batch(16)
        .prefetch(tf.data.AUTOTUNE)
    )


with strategy.scope():
    model = keras.Sequential(
        [
            keras.Input((64, 64, 3)),
            layers.Conv2D(16, 3, strides=2, activation="relu"),
            layers.Conv2D(32, 3, strides=2, activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(10),
        ]
    )
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.SGD(0.05)
    optimizer.build(model.trainable_variables)


def replica_step(image, label):
    with tf.GradientTape() as tape:
        loss = loss_of(label, model(image, training=True)) / replicas
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


@tf.function
def train_step(images, labels):
    return strategy.reduce("SUM", strategy.run(replica_step, args=(images, labels)), axis=None)


pipelines = [pipeline(replica) for replica in range(replicas)]
started = time.perf_counter()
for epoch in range(args.epochs):
    for parts in zip(*pipelines, strict=True):
        images, labels = (
            strategy.experimental_distribute_values_from_function(
                lambda context, part=part: parts[context.replica_id_in_sync_group][part]  # noqa: B023
            )
            for part in (0, 1)
        )
        loss = train_step(images, labels)
    print(f"epoch {epoch + 1}: loss {loss:.4f}")
loss = float(loss)
seconds = time.perf_counter() - started

print(f"loss {loss:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {480 * PASSES * args.epochs} samples in {seconds:.2f} s")
