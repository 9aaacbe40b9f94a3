"""Judge reviews of different length with an average of their words that leaves the padding out.

Each review is cleaned, split and looked up by itself, before the batch is made: string operations
for one short text at a time, in every epoch.
"""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf
from keras import layers

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=12)
args = parser.parse_args()
keras.utils.set_random_seed(207)

rows = [line.split("\t") for line in (args.data / "reviews.tsv").read_text().splitlines()]
texts, labels = [text for _, text in rows], [float(label) for label, _ in rows]
words = layers.TextVectorization(max_tokens=5000, output_sequence_length=48)
words.adapt(tf.constant(texts))

dataset = (
    tf.data.Dataset.from_tensor_slices((texts, labels))
    .shuffle(len(rows), seed=7)
    .map(  # bottleneck: per_element_work
        lambda text, label: (words(text), label), num_parallel_calls=2
    )
    .batch(128)
    .prefetch(tf.data.AUTOTUNE)
)


class Judge(keras.Model):
    def __init__(self):
        super().__init__()
        self.embed = layers.Embedding(5000, 16, mask_zero=True)
        self.pool = layers.GlobalAveragePooling1D()
        self.hidden = layers.Dense(16, activation="relu")
        self.out = layers.Dense(1)

    def call(self, tokens):
        known = self.embed(tokens)
        return self.out(self.hidden(self.pool(known, mask=self.embed.compute_mask(tokens))))[:, 0]


model = Judge()
model(tf.zeros((1, 48), tf.int64))
optimizer = keras.optimizers.RMSprop(1e-3)
optimizer.build(model.trainable_variables)


@tf.function
def train_step(tokens, label):
    with tf.GradientTape() as tape:
        wrong = tf.nn.sigmoid_cross_entropy_with_logits(label, model(tokens, training=True))
        loss = tf.reduce_mean(wrong)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


started = time.perf_counter()
for epoch in range(args.epochs):
    for tokens, label in dataset:
        loss = train_step(tokens, label)
    print(f"epoch {epoch + 1}: loss {loss:.6f}")
seconds = time.perf_counter() - started

print(f"loss {loss:.6f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(rows) * args.epochs} samples in {seconds:.2f} s")
