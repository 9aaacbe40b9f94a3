"""Predict the next letter of reviews with a GRU that drops recurrent connections.

``recurrent_dropout`` looks like one more regulariser. It shuts the fast kernels out: on a GPU
there is no cuDNN (https://github.com/tensorflow/tensorflow/issues/38236 reports 25 times), and
everywhere each gate gets a mask and products of its own in every time step. Dropout of the inputs
and outputs regularises too, and costs next to nothing.
"""

import argparse
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=30)
args = parser.parse_args()
keras.utils.set_random_seed(2)

BLOCK, BATCH, BLOCKS = 60, 64, 1600

text = (args.data / "reviews.tsv").read_text()
letters = sorted(set(text))
codes = np.array([letters.index(c) for c in text[: BLOCKS * (BLOCK + 1)]], dtype="int32")
codes = codes.reshape(BLOCKS, BLOCK + 1)

dataset = (
    tf.data.Dataset.from_tensor_slices((codes[:, :-1], codes[:, 1:]))
    .shuffle(BLOCKS, seed=2)
    .batch(BATCH, drop_remainder=True)
    .prefetch(tf.data.AUTOTUNE)
)


class LetterModel(keras.Model):
    def __init__(self):
        super().__init__()
        self.embed = keras.layers.Embedding(len(letters), 32)
        self.recur = keras.layers.GRU(
            160,
            return_sequences=True,
            dropout=0.1,
            recurrent_dropout=0.2,  # bottleneck
        )
        self.drop = keras.layers.Dropout(0.2)
        self.head = keras.layers.Dense(len(letters))

    def call(self, codes, training=False):
        states = self.recur(self.embed(codes), training=training)
        return self.head(self.drop(states, training=training))


model = LetterModel()
model(codes[:1])
optimizer = keras.optimizers.AdamW(2e-3)
optimizer.build(model.trainable_variables)
cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def train_step(before, after):
    with tf.GradientTape() as tape:
        loss = cross_entropy(after, model(before, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


begun = time.perf_counter()
for epoch in range(args.epochs):
    for before, after in dataset:
        loss = train_step(before, after)
    print(f"epoch {epoch + 1}: loss {float(loss):.4f}")
last = float(loss)
took = time.perf_counter() - begun

print(f"loss {last:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {BLOCKS * args.epochs} samples in {took:.2f} s")
