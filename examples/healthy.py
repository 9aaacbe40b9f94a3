"""Train a network that the processor is already busy with: nothing to gain here.

    python examples/healthy.py

The images lie in memory, cached and prefetched, and one step computes for tens of milliseconds, so
that neither the input nor Python is ever waited for.
"""

import argparse

import keras
import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=600)
parser.add_argument("--seed", type=int, help="make every run alike")
args = parser.parse_args()
if args.seed is not None:
    keras.utils.set_random_seed(args.seed)

draw = np.random.default_rng(args.seed)
labels = draw.integers(0, 10, 2048)
patterns = draw.normal(size=(10, 32, 32, 3))
images = (patterns[labels] + draw.normal(scale=3.0, size=(2048, 32, 32, 3))).astype("float32")

dataset = (
    tf.data.Dataset.from_tensor_slices((images, labels))
    .batch(64, drop_remainder=True)
    .cache()
    .shuffle(32, seed=args.seed)
    .repeat()
    .prefetch(tf.data.AUTOTUNE)
)

model = keras.Sequential(
    [
        keras.Input((32, 32, 3)),
        keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
        keras.layers.Conv2D(64, 3, padding="same", activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Conv2D(64, 3, padding="same", activation="relu"),
        keras.layers.Conv2D(128, 3, padding="same", activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(10),
    ]
)
model.compile(
    optimizer="adam",
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
per_epoch = min(args.steps, 100)
model.fit(
    dataset, epochs=max(1, args.steps // per_epoch), steps_per_epoch=per_epoch, verbose=2
)
