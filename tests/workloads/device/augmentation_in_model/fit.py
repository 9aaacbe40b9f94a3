"""Tell good reviews from bad ones by their letters; the model itself drops words and counts.

Words are left out at random and n-grams of letters counted by the first layers of the model, so
that it takes plain text when it is served. String operations run on one core, inside the
training step, while the input pipeline stands idle with the next batch: the guide to preprocessing
layers says to do it in tf.data for training (https://keras.io/guides/preprocessing_layers/).
"""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf
from keras import layers

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=50)
args = parser.parse_args()
keras.utils.set_random_seed(3)

TERMS, BATCH = 3_000, 100

rows = [line.split("\t") for line in (args.data / "reviews.tsv").read_text().splitlines()]
labels = [[int(label)] for label, _ in rows]
texts = [text for _, text in rows]


class DropWords(layers.Layer):
    """Leave out one word in ten."""

    def __init__(self):
        super().__init__()
        self.seeds = keras.random.SeedGenerator(4)

    def call(self, texts):
        words = tf.strings.split(texts)
        kept = keras.random.uniform(tf.shape(words.flat_values), seed=self.seeds) > 0.1
        kept = tf.RaggedTensor.from_row_splits(kept, words.row_splits)
        return tf.strings.reduce_join(tf.ragged.boolean_mask(words, kept), axis=-1, separator=" ")


vectorize = layers.TextVectorization(
    TERMS, split="character", ngrams=3, output_mode="count", pad_to_max_tokens=True
)
vectorize.adapt(texts[:500])
numbers_of = keras.Sequential([keras.Input((), dtype="string"), DropWords(), vectorize])

train = (
    tf.data.Dataset.from_tensor_slices((texts, labels))
    .shuffle(len(texts), seed=3)
    .batch(BATCH)
    .repeat()
    .prefetch(tf.data.AUTOTUNE)
)

model = keras.Sequential(
    [
        keras.Input((), dtype="string"),
        numbers_of,  # bottleneck
        layers.Dense(256, activation="relu"),
        layers.Dense(64, activation="relu"),
        layers.Dense(1),
    ]
)
model.compile(
    optimizer=keras.optimizers.Adam(1e-3),
    loss=keras.losses.BinaryCrossentropy(from_logits=True),
)

start = time.perf_counter()
history = model.fit(train, steps_per_epoch=len(texts) // BATCH, epochs=args.epochs, verbose=2)
elapsed = time.perf_counter() - start

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(texts) * args.epochs} samples in {elapsed:.2f} s")
