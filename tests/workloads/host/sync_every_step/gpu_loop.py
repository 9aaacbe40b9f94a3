"""Classify augmented photographs; every step's loss is fetched before the next batch is made.

NumPy crops, flips and adds noise on the host. It could do that for the next batch while the GPU
computes, were it not for ``float(loss)``, which waits for the step to end, and only for a mean that
is looked at once per epoch. "Why is loss.numpy() so slow" is the question it leads to: the time
shows up at the call that waits, not at the work waited for.
"""

import argparse
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from keras import layers

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=60)
args = parser.parse_args()
keras.utils.set_random_seed(18)
draw = np.random.default_rng(18)

SIZE, MARGIN = 144, 16

photos = keras.utils.image_dataset_from_directory(
    args.data / "photos",
    image_size=(SIZE + MARGIN, SIZE + MARGIN),
    batch_size=None,
    shuffle=False,
    verbose=False,
)
images, labels = photos.batch(1_000).get_single_element()
images, labels = images.numpy() / 255, labels.numpy()


def augment(rows):
    """Random crops and flips, each with another gamma, and noise."""
    batch = draw.normal(scale=0.05, size=(len(rows), SIZE, SIZE, 3))
    for i, row in enumerate(rows):
        top, left = draw.integers(0, MARGIN + 1, 2)
        crop = images[row, top : top + SIZE, left : left + SIZE]
        batch[i] += (crop[:, ::-1] if draw.random() < 0.5 else crop) ** draw.uniform(0.7, 1.4)
    return tf.constant(batch.astype("float32"))


model = keras.Sequential([keras.Input((SIZE, SIZE, 3))])
for filters in (128, 256, 512, 1024):
    model.add(layers.Conv2D(filters, 3, strides=2, padding="same", activation="relu"))
model.add(layers.GlobalAveragePooling2D())
model.add(layers.Dense(10))
optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_fn(y, model(x, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply(gradients, model.trainable_variables)
    return loss


started = time.perf_counter()
for epoch in range(args.epochs):
    losses = []
    for rows in np.split(draw.permutation(len(images)), len(images) // 16):
        loss = train_step(augment(rows), tf.constant(labels[rows]))
        losses.append(float(loss))  # bottleneck
    mean_loss = np.mean(losses)
    print(f"epoch {epoch + 1}: loss {mean_loss:.4f}")
seconds = time.perf_counter() - started

print(f"loss {mean_loss:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(images) * args.epochs} samples in {seconds:.2f} s")
