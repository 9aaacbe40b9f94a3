"""Tell good from bad reviews with one transformer block, over the first 64 words."""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf
from keras import layers

WORDS, LENGTH, WIDTH = 5000, 64, 64

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=30)
args = parser.parse_args()
keras.utils.set_random_seed(111)
keras.mixed_precision.set_global_policy("mixed_bfloat16")

rows = [line.split("\t") for line in (args.data / "reviews.tsv").read_text().splitlines()]
vectorise = layers.TextVectorization(max_tokens=WORDS, output_sequence_length=LENGTH)
texts = tf.constant([text for _, text in rows])
vectorise.adapt(texts)
labels = tf.constant([[int(label)] for label, _ in rows])
dataset = (
    tf.data.Dataset.from_tensor_slices((tf.cast(vectorise(texts), tf.int32), labels))
    .shuffle(len(rows), seed=1)
    .batch(60)
    .prefetch(tf.data.AUTOTUNE)
)


class Positions(layers.Layer):
    """Add a learned vector for each place."""

    def build(self, shape):
        self.table = self.add_weight(shape=shape[1:], initializer="uniform")

    def call(self, x):
        return x + self.table


inputs = keras.Input((LENGTH,), dtype="int32")
x = Positions()(layers.Embedding(WORDS, WIDTH)(inputs))
attended = layers.MultiHeadAttention(4, WIDTH // 4)(x, x)
x = layers.LayerNormalization()(x + attended)
x = layers.LayerNormalization()(x + layers.Dense(WIDTH)(layers.Dense(256, activation="relu")(x)))
x = layers.GlobalAveragePooling1D()(x)
model = keras.Model(inputs, layers.Dense(1, dtype="float32")(x))
model.compile(
    optimizer=keras.optimizers.SGD(0.05, momentum=0.9),
    loss=keras.losses.BinaryCrossentropy(from_logits=True),
    metrics=["accuracy"],
)

started = time.perf_counter()
history = model.fit(dataset, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(rows) * args.epochs} samples in {seconds:.2f} s")
