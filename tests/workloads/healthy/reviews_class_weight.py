"""Find the rare bad reviews: convolutions over words, and a weight for each class."""

import argparse
import time
from pathlib import Path

import keras
import numpy as np
from keras import layers

WORDS, LENGTH = 5000, 96

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=30)
args = parser.parse_args()
keras.utils.set_random_seed(121)
keras.mixed_precision.set_global_policy("mixed_bfloat16")

rows = [line.split("\t") for line in (args.data / "reviews.tsv").read_text().splitlines()]
good = [row for row in rows if row[0] == "1"]
bad = [row for row in rows if row[0] == "0"]
rows = good + bad[: len(good) // 2]
labels = np.array([[int(label)] for label, _ in rows], "float32")
vectorise = layers.TextVectorization(max_tokens=WORDS, output_sequence_length=LENGTH)
texts = [text for _, text in rows]
vectorise.adapt(texts)
ids = np.asarray(vectorise(texts), "int32")

model = keras.Sequential(
    [
        keras.Input((LENGTH,), dtype="int32"),
        layers.Embedding(WORDS, 64),
        layers.Conv1D(192, 5, activation="relu"),
        layers.GlobalMaxPooling1D(),
        layers.Dense(64, activation="relu"),
        layers.Dense(1, dtype="float32"),
    ]
)
model.compile(
    optimizer=keras.optimizers.SGD(0.1),
    loss=keras.losses.BinaryCrossentropy(from_logits=True),
    weighted_metrics=["accuracy"],
    steps_per_execution=16,
)
weights = {0: len(rows) / 2 / np.sum(labels == 0), 1: len(rows) / 2 / np.sum(labels == 1)}

started = time.perf_counter()
history = model.fit(ids, labels, batch_size=64, class_weight=weights, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(rows) * args.epochs} samples in {seconds:.2f} s")
