"""Train a network that the processor is already busy with: nothing to gain here.

    python examples/healthy.py

The images lie in memory, cached and prefetched, and one step computes for tens of milliseconds, so
that neither the input nor Python is ever waited for. Depthwise convolutions have no fast kernels in
XLA or bfloat16 on a processor, so compiling or lowering the precision only costs time.
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
labels = draw.integers(0, 10, 4096)
patterns = np.kron(draw.normal(size=(10, 4, 4, 3)), np.ones((1, 8, 8, 1)))
images = (patterns[labels] + draw.normal(size=(4096, 32, 32, 3))).astype("float32")

dataset = (
    tf.data.Dataset.from_tensor_slices((images, labels))
    .batch(128, drop_remainder=True)
    .cache()
    .shuffle(32, seed=args.seed)
    .repeat()
    .prefetch(tf.data.AUTOTUNE)
)

model = keras.Sequential(
    [
        keras.Input((32, 32, 3)),
        keras.layers.SeparableConv2D(32, 3, padding="same", activation="relu"),
        keras.layers.SeparableConv2D(64, 3, strides=2, padding="same", activation="relu"),
        keras.layers.SeparableConv2D(64, 3, padding="same", activation="relu"),
        keras.layers.SeparableConv2D(128, 3, strides=2, padding="same", activation="relu"),
        keras.layers.SeparableConv2D(128, 3, padding="same", activation="relu"),
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
model.fit(dataset, epochs=max(1, args.steps // per_epoch), steps_per_epoch=per_epoch, verbose=2)
