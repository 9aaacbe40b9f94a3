"""Classify photographs with a residual network; every epoch makes its training step anew.

``train_step`` is defined inside the function that trains one epoch, where it sees everything
without an argument. But a ``tf.function`` keeps its graphs with itself: the one of the next epoch
knows nothing of the last one's, and a deep network takes long to trace. TensorFlow's warning calls
it "creating @tf.function repeatedly in a loop"; with ``fit`` the same mistake is to call
``compile`` in every round (TensorFlow issue 73864).
"""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf
from keras import layers

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=50)
args = parser.parse_args()
keras.utils.set_random_seed(2)


def parse(example):
    features = {
        "image": tf.io.FixedLenFeature((), tf.string),
        "label": tf.io.FixedLenFeature((), tf.int64),
    }
    fields = tf.io.parse_single_example(example, features)
    image = tf.image.resize(tf.io.decode_jpeg(fields["image"], channels=3), (64, 64))
    return tf.cast(image, tf.uint8), fields["label"]


# Decoded once, before the training: 480 small images fit into memory.
shards = sorted(str(shard) for shard in (args.data / "records").glob("*.tfrecord"))
records = tf.data.TFRecordDataset(shards).map(parse, num_parallel_calls=tf.data.AUTOTUNE)
images, labels = records.batch(10_000).get_single_element()
dataset = (
    tf.data.Dataset.from_tensor_slices((images, labels))
    .shuffle(len(images), seed=2)
    .batch(32)
    .prefetch(tf.data.AUTOTUNE)
)


def residual(x, filters, strides):
    short = layers.Conv2D(filters, 1, strides)(x) if strides > 1 else x
    y = layers.Conv2D(filters, 3, strides, padding="same", use_bias=False)(x)
    y = layers.ReLU()(layers.BatchNormalization()(y))
    y = layers.Conv2D(filters, 3, padding="same", use_bias=False)(y)
    return layers.ReLU()(layers.add([short, layers.BatchNormalization()(y)]))


inputs = keras.Input((64, 64, 3))
x = layers.Rescaling(1 / 255)(inputs)
x = layers.Conv2D(16, 3, strides=2, padding="same")(x)
for filters in (24, 32, 48):
    x = residual(x, filters, 2)
    x = residual(x, filters, 1)
    x = residual(x, filters, 1)
model = keras.Model(inputs, layers.Dense(10)(layers.GlobalAveragePooling2D()(x)))
optimizer = keras.optimizers.SGD(0.02, momentum=0.9, nesterov=True)
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
mean_loss = keras.metrics.Mean()


def train_one_epoch():
    @tf.function  # bottleneck
    def train_step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_fn(y, model(x, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        mean_loss.update_state(loss)

    mean_loss.reset_state()
    for x, y in dataset:
        train_step(x, y)


optimizer.build(model.trainable_variables)
started = time.perf_counter()
for epoch in range(args.epochs):
    train_one_epoch()
    print(f"epoch {epoch + 1}: loss {float(mean_loss.result()):.4f}")
seconds = time.perf_counter() - started

print(f"loss {float(mean_loss.result()):.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(images) * args.epochs} samples in {seconds:.2f} s")
