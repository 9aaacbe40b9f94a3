"""Tell good from bad reviews with an LSTM.

Texts of like length share a batch; the batches are put together once and change places later.
"""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf
from keras import layers

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=30)
args = parser.parse_args()
keras.utils.set_random_seed(106)

rows = [line.split("\t") for line in (args.data / "reviews.tsv").read_text().splitlines()]
labels = [[int(label)] for label, _ in rows]
vectorise = layers.TextVectorization(max_tokens=5000)
texts = tf.constant([text for _, text in rows])
vectorise.adapt(texts)


def unpad(words, label):
    return words[: tf.math.count_nonzero(words)], label


dataset = (
    tf.data.Dataset.from_tensor_slices((vectorise(texts), labels))
    .map(unpad, num_parallel_calls=tf.data.AUTOTUNE)
    .bucket_by_sequence_length(
        element_length_func=lambda words, label: tf.shape(words)[0],
        bucket_boundaries=[16, 24, 32, 48, 64, 96],
        bucket_batch_sizes=[64] * 7,
    )
    .cache()
    .shuffle(100, seed=1)
    .prefetch(tf.data.AUTOTUNE)
)

model = keras.Sequential(
    [
        layers.Embedding(5000, 64),
        layers.Bidirectional(layers.LSTM(64)),
        layers.Dense(1),
    ]
)
model.compile(
    optimizer=keras.optimizers.SGD(0.1),
    loss=keras.losses.BinaryCrossentropy(from_logits=True),
    metrics=["accuracy"],
)

started = time.perf_counter()
history = model.fit(dataset, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(rows) * args.epochs} samples in {seconds:.2f} s")
