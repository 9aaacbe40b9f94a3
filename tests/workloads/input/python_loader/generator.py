"""Classify photographs that a Python generator opens with Pillow, one at a time.

The generator came with the first prototype and ``from_generator`` turned it into a dataset; behind
that call runs a single Python thread, however many cores there are, and ``prefetch`` only hides
what fits beside one step. Many threads ask why ``from_generator`` is slow and leaves the cores
idle; the documentation of tf.data warns of it as well.
"""

import argparse
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from PIL import Image, ImageEnhance

SIDE = 128

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=40)
args = parser.parse_args()
keras.utils.set_random_seed(31)
rng = np.random.default_rng(31)

paths = sorted((args.data / "photos").glob("*/*.jpg"))
classes = sorted({p.parent.name for p in paths})
labels = [classes.index(p.parent.name) for p in paths]


def examples():
    """Yield every photograph once, cropped at random, in random colours."""
    for i in rng.permutation(len(paths)):
        image = Image.open(paths[i]).convert("RGB")
        side = int(rng.integers(200, 375))
        left = int(rng.integers(0, image.width - side + 1))
        top = int(rng.integers(0, image.height - side + 1))
        image = image.crop((left, top, left + side, top + side))
        image = image.resize((SIDE, SIDE), Image.Resampling.BILINEAR)
        image = ImageEnhance.Color(image).enhance(rng.uniform(0.6, 1.4))
        image = ImageEnhance.Contrast(image).enhance(rng.uniform(0.6, 1.4))
        yield np.asarray(image, np.float32) / 255.0, labels[i]


signature = (tf.TensorSpec((SIDE, SIDE, 3), tf.float32), tf.TensorSpec((), tf.int64))
dataset = tf.data.Dataset.from_generator(examples, output_signature=signature)  # bottleneck
dataset = dataset.batch(16).prefetch(tf.data.AUTOTUNE)

model = keras.Sequential(
    [
        keras.Input((SIDE, SIDE, 3)),
        keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
        keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
        keras.layers.Flatten(),
        keras.layers.Dense(len(classes)),
    ]
)
optimizer = keras.optimizers.Adam(1e-4)
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
print(f"trained {len(paths) * args.epochs} samples in {seconds:.2f} s")
