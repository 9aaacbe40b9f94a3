"""Classify photographs from an endless stream; 400 batches are prepared ahead, most in vain.

``prefetch(400)`` was meant to keep the model fed. The stream is started anew in every epoch and
left after STEPS batches, so all that was prepared beyond them is thrown away: gigabytes of memory
and half the processor for nothing. A buffer of two batches feeds this model just as well.
Too much prepared ahead is a usual way to run out of memory, by hand or by AUTOTUNE
(tensorflow#33516, google/scaaml#53).
"""

import argparse
import itertools
import time
from pathlib import Path

import keras
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=200)
args = parser.parse_args()
keras.utils.set_random_seed(10)

BATCH, STEPS = 32, 50

paths = sorted(str(p) for p in (args.data / "photos").glob("*/*.jpg"))
classes = sorted(p.name for p in (args.data / "photos").iterdir())
labels = [classes.index(Path(p).parent.name) for p in paths]


def decode(path, label):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.cast(tf.image.resize(image, (128, 160)), tf.uint8), label


def augment(example, seed):
    image, label = example
    image = tf.image.stateless_random_crop(image, (112, 112, 3), seed)
    image = tf.image.stateless_random_flip_left_right(image, seed + 1)
    return tf.image.stateless_random_brightness(tf.cast(image, tf.float32), 30.0, seed + 2), label


photos = (
    tf.data.Dataset.from_tensor_slices((paths, labels))
    .map(decode, num_parallel_calls=tf.data.AUTOTUNE)
    .cache()
    .repeat()
    .shuffle(len(paths), seed=11)
)
seeds = tf.data.Dataset.random(seed=12, rerandomize_each_iteration=True)
stream = (
    tf.data.Dataset.zip((photos, seeds.batch(2, drop_remainder=True)))
    .map(augment, num_parallel_calls=tf.data.AUTOTUNE)
    .batch(BATCH)
    .prefetch(400)  # bottleneck
)

model = keras.Sequential(
    [
        keras.Input((112, 112, 3)),
        keras.layers.Rescaling(1 / 255),
        keras.layers.Conv2D(24, 5, strides=4, activation="relu"),
        keras.layers.Conv2D(48, 3, activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Conv2D(64, 3, activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(len(classes)),
    ]
)
optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def train_step(images, targets):
    with tf.GradientTape() as tape:
        loss = loss_of(targets, model(images, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply(gradients, model.trainable_variables)
    return loss


started = time.perf_counter()
for epoch in range(args.epochs):
    losses = [train_step(*batch) for batch in itertools.islice(stream, STEPS)]
    print(f"epoch {epoch + 1}: loss {float(tf.reduce_mean(losses)):.4f}")
last = float(tf.reduce_mean(losses))
seconds = time.perf_counter() - started

print(f"loss {last:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {BATCH * STEPS * args.epochs} samples in {seconds:.2f} s")
