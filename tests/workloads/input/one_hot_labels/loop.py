"""Predict the next word of a review; each next word is spelled out over a vocabulary of 5,000.

The words to guess are looked up in an identity matrix, a trick that character models with their 60
symbols use (keras#13612). Here a batch of such labels is 41 MB instead of 4 KB: picked, copied into
a tensor, narrowed and walked over by the loss.
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
keras.utils.set_random_seed(41)

WORDS, LENGTH, BATCH = 5_000, 16, 64

lines = (args.data / "reviews.tsv").read_text().splitlines()
text = [int(word.removeprefix("word")) for line in lines for word in line.split("\t")[1].split()]
rows = np.array(text[: len(text) // (LENGTH + 1) * (LENGTH + 1)], "int32")
rows = rows.reshape(-1, LENGTH + 1)[: BATCH * 60]
one_hot = np.eye(WORDS)
draw = np.random.default_rng(42)


class NextWord(keras.Model):
    def __init__(self):
        super().__init__()
        self.embed = layers.Embedding(WORDS, 16)
        self.convs = [layers.Conv1D(16, 3, padding="causal", activation="relu") for _ in range(2)]
        self.guess = layers.Dense(WORDS)

    def call(self, words):
        x = self.embed(words)
        for conv in self.convs:
            x = x + conv(x)
        return self.guess(x)


model = NextWord()
model.build((None, LENGTH))
optimizer = keras.optimizers.SGD(0.5)
loss_of = keras.losses.CategoricalCrossentropy(from_logits=True)


@tf.function
def train_step(words, targets):
    with tf.GradientTape() as tape:
        loss = loss_of(targets, model(words))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply(gradients, model.trainable_variables)
    return loss


started = time.perf_counter()
for epoch in range(args.epochs):
    losses = []
    for batch in draw.permutation(rows).reshape(-1, BATCH, LENGTH + 1):
        losses.append(train_step(batch[:, :-1], one_hot[batch[:, 1:]]))  # bottleneck
    print(f"epoch {epoch + 1}: loss {float(tf.reduce_mean(losses)):.4f}")
last = float(tf.reduce_mean(losses))
seconds = time.perf_counter() - started

print(f"loss {last:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(rows) * args.epochs} samples in {seconds:.2f} s")
