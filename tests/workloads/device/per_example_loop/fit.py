"""Judge reviews with a convolution and attention pooling; the pooling takes one text at a time.

Texts differ in length, so the layer was written for a single one, where a plain softmax over its
own words is easy to read, and ``tf.map_fn`` carries it over the batch: sixty rounds of tiny
operations forward, sixty more backward, where a mask would do it at once. The slowness of
``map_fn`` is asked about again and again: https://github.com/tensorflow/tensorflow/issues/24774.
"""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf
from keras import layers

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=40)
args = parser.parse_args()
keras.utils.set_random_seed(21)
keras.config.set_dtype_policy("mixed_bfloat16")  # faster here, measured

BATCH = 60
lines = [line.split("\t") for line in (args.data / "reviews.tsv").read_text().splitlines()]
sentiment = [float(label) for label, _ in lines]
words = [[1 + int(word.removeprefix("word")) for word in text.split()] for _, text in lines]

# Texts of like length share a batch, so little is padded. The batches are made once.
train = (
    tf.data.Dataset.from_tensor_slices((tf.ragged.constant(words, tf.int32), sentiment))
    .map(lambda text, label: (text, label))  # a ragged row becomes a plain tensor
    .bucket_by_sequence_length(
        lambda text, _: tf.size(text),
        bucket_boundaries=[12, 18, 24, 32, 42, 56, 80, 120],
        bucket_batch_sizes=[BATCH] * 9,
    )
    .cache()
    .shuffle(200, seed=21)
    .prefetch(tf.data.AUTOTUNE)
)


class AttentionPooling(layers.Layer):
    """The mean of the words' states, each weighted by its likeness to a learned query."""

    def build(self, shape):
        self.query = self.add_weight(shape=(shape[-1],), initializer="glorot_uniform", name="query")

    def call(self, states, tokens):
        def pool(example):
            states, tokens = example
            states = tf.boolean_mask(states, tokens > 0)
            weights = tf.nn.softmax(tf.linalg.matvec(states, self.query))
            return tf.reduce_sum(weights[:, None] * states, axis=0)

        return tf.map_fn(pool, (states, tokens), fn_output_signature=states.dtype)  # bottleneck


tokens = keras.Input((None,), dtype="int32")
states = layers.Embedding(5001, 32)(tokens)
states = layers.Conv1D(96, 5, padding="same", activation="relu")(states)
states = layers.Conv1D(96, 5, padding="same", activation="relu")(states)
text = AttentionPooling()(states, tokens)
model = keras.Model(tokens, layers.Dense(1, dtype="float32")(text))
model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True))

start = time.perf_counter()
history = model.fit(train, epochs=args.epochs, verbose=2)
elapsed = time.perf_counter() - start

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(lines) * args.epochs} samples in {elapsed:.2f} s")
