"""Tell dear houses from cheap ones; four metrics are updated and read in every step.

The loop is compiled, the metrics are not: each ``update_state`` and each ``result`` runs a few
dozen operations from Python, only so that the progress line is never out of date. Keras's guide to
writing a loop from scratch moves the updates into the step and reads the results once per epoch.
"""

import argparse
import sys
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=50)
args = parser.parse_args()
keras.utils.set_random_seed(6)

table = np.loadtxt(args.data / "houses.csv", delimiter=",", skiprows=1, dtype=np.float32)
features, prices = table[:, :-1], table[:, -1:]
dear = (prices > np.quantile(prices, 0.8)).astype(np.float32)
dataset = (
    tf.data.Dataset.from_tensor_slices((features, dear))
    .shuffle(len(features), seed=6)
    .batch(500)
    .prefetch(tf.data.AUTOTUNE)
)

model = keras.Sequential(
    [
        keras.Input((features.shape[1],)),
        keras.layers.Dense(512, activation="relu"),
        keras.layers.Dense(512, activation="relu"),
        keras.layers.Dense(512, activation="relu"),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
)
optimizer = keras.optimizers.SGD(0.02, momentum=0.9)
loss_fn = keras.losses.BinaryCrossentropy()
metrics = [
    keras.metrics.AUC(name="ROC"),
    keras.metrics.AUC(name="PR", curve="PR"),
    keras.metrics.Precision(name="precision"),
    keras.metrics.Recall(name="recall"),
]


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        y_pred = model(x, training=True)
        loss = loss_fn(y, y_pred)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply(gradients, model.trainable_variables)
    return loss, y_pred


started = time.perf_counter()
for epoch in range(args.epochs):
    for metric in metrics:
        metric.reset_state()
    for x, y in dataset:
        loss, y_pred = train_step(x, y)
        for metric in metrics:
            metric.update_state(y, y_pred)  # bottleneck
        scores = " ".join(f"{m.name} {float(m.result()):.4f}" for m in metrics)  # bottleneck
        print(f"epoch {epoch + 1}: {scores}", end="\r", file=sys.stderr)
    print(f"epoch {epoch + 1}: loss {float(loss):.4f} {scores}")
seconds = time.perf_counter() - started

print(f"loss {float(loss):.4f} {scores}")
model.save_weights("trained.weights.h5")
print(f"trained {len(features) * args.epochs} samples in {seconds:.2f} s")
