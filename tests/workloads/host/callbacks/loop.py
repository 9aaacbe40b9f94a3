"""Judge short reviews; a callback sorts all weights after every batch.

It was written for ``on_epoch_end`` and moved to ``on_train_batch_end`` to catch a loss that
exploded. There it copies and sorts every weight, the word table included, while the training
waits. Home-made watchers of weights and gradients cost the same way, as do TensorBoard's histograms
where they are written per batch.
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
parser.add_argument("--epochs", type=int, default=40)
args = parser.parse_args()
keras.utils.set_random_seed(9)

WORDS = 40  # of each review; the median has 27

lines = (args.data / "reviews.tsv").read_text().splitlines()
labels = np.array([[line[0] == "1"] for line in lines], dtype="float32")
vectorize = layers.TextVectorization(max_tokens=5_000, output_sequence_length=WORDS)
vectorize.adapt([line[2:] for line in lines])
tokens = vectorize([line[2:] for line in lines])
dataset = (
    tf.data.Dataset.from_tensor_slices((tokens, labels))
    .shuffle(len(lines), seed=9)
    .batch(100)
    .prefetch(tf.data.AUTOTUNE)
)

model = keras.Sequential(
    [
        keras.Input((WORDS,), dtype="int64"),
        layers.Embedding(5_000, 96),
        layers.Conv1D(96, 5, padding="same", activation="relu"),
        layers.Conv1D(96, 5, padding="same", activation="relu"),
        layers.GlobalMaxPooling1D(),
        layers.Dense(1),
    ]
)
optimizer = keras.optimizers.SGD(0.2)
loss_fn = keras.losses.BinaryCrossentropy(from_logits=True)


class Deciles(keras.callbacks.Callback):
    """Deciles of every weight, for the plots in the report."""

    def on_train_begin(self, logs=None):
        self.deciles = []

    def on_train_batch_end(self, batch, logs=None):  # bottleneck
        weights = self.model.get_weights()
        self.deciles.append([np.quantile(w, np.arange(0.1, 1, 0.1)) for w in weights])  # bottleneck

    def on_train_end(self, logs=None):
        np.save("deciles.npy", np.array(self.deciles, dtype="float32"))


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_fn(y, model(x, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply(gradients, model.trainable_variables)
    return loss


callbacks = keras.callbacks.CallbackList([Deciles()], model=model)
started = time.perf_counter()
callbacks.on_train_begin()
for epoch in range(args.epochs):
    callbacks.on_epoch_begin(epoch)
    losses = []
    for step, (x, y) in enumerate(dataset):
        callbacks.on_train_batch_begin(step)
        losses.append(train_step(x, y))
        callbacks.on_train_batch_end(step, {"loss": losses[-1]})
    callbacks.on_epoch_end(epoch)
    print(f"epoch {epoch + 1}: loss {np.mean(losses):.4f}")
callbacks.on_train_end()
seconds = time.perf_counter() - started

print(f"loss {np.mean(losses):.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(lines) * args.epochs} samples in {seconds:.2f} s")
