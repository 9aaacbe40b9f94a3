"""Classify photographs that a recurrent network reads row by row; floats are shuffled.

``shuffle`` stands where many tutorials have it, right before ``batch``: its buffer then holds
decoded pictures of 600 KB instead of names, 290 MB in all. An epoch takes a third of them, but no
batch leaves the buffer before every picture has been decoded. Threads about shuffle buffers that
fill slowly or run out of memory end in the advice to shuffle the names (tensorflow#47090 is one).
"""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf

SIDE = 224
STEPS, BATCH = 10, 16  # in an epoch: a third of the photographs, others each time
ROWS = 8  # of pixels, read in one step

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=40)
args = parser.parse_args()
keras.utils.set_random_seed(121)

paths = sorted(str(p) for p in (args.data / "photos").glob("*/*.jpg"))
classes = sorted(p.name for p in (args.data / "photos").iterdir())
labels = [classes.index(Path(p).parent.name) for p in paths]


def load(path, label, seed):
    """Decode a random window of the photograph."""
    data = tf.io.read_file(path)
    corner = tf.random.stateless_uniform((2,), seed, maxval=76, dtype=tf.int32)
    window = tf.concat([corner, [300, 400]], 0)
    image = tf.image.decode_and_crop_jpeg(data, window, channels=3)
    image = tf.image.stateless_random_jpeg_quality(image, 30, 90, seed)
    image = tf.image.resize(image, (SIDE, SIDE)) / 127.5 - 1.0
    return tf.image.stateless_random_flip_left_right(image, seed), label


files = tf.data.Dataset.from_tensor_slices((paths, labels))
seeds = tf.data.Dataset.random(seed=122, rerandomize_each_iteration=True).batch(2)
dataset = (
    tf.data.Dataset.zip(files, seeds)
    .map(lambda file, seed: load(*file, seed), num_parallel_calls=tf.data.AUTOTUNE)
    .shuffle(len(paths), seed=123)  # bottleneck
    .batch(BATCH)
    .take(STEPS)
    .prefetch(tf.data.AUTOTUNE)
)

inputs = keras.Input((SIDE, SIDE, 3))
x = keras.layers.Reshape((SIDE // ROWS, ROWS * SIDE * 3))(inputs)
x = keras.layers.Dense(64)(x)
x = keras.layers.GRU(96)(x)
model = keras.Model(inputs, keras.layers.Dense(len(classes))(x))
optimizer = keras.optimizers.Adam(5e-4)
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def train_step(images, targets):
    with tf.GradientTape() as tape:
        loss = loss_fn(targets, model(images, training=True))
    variables = model.trainable_variables
    optimizer.apply(tape.gradient(loss, variables), variables)
    return loss


started = time.perf_counter()
for epoch in range(args.epochs):
    for images, targets in dataset:
        loss = train_step(images, targets)
    print(f"epoch {epoch + 1}: loss {float(loss):.4f}")
seconds = time.perf_counter() - started

print(f"loss {float(loss):.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {BATCH * STEPS * args.epochs} samples in {seconds:.2f} s")
