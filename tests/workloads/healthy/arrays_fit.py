"""Recognise spoken words from the wave itself, with plain arrays that fit into memory."""

import argparse
import time
import wave
from pathlib import Path

import keras
import numpy as np
from keras import layers

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=60)
args = parser.parse_args()
keras.utils.set_random_seed(104)
keras.mixed_precision.set_global_policy("mixed_bfloat16")

files = sorted((args.data / "speech").glob("*/*.wav"))
words = sorted({file.parent.name for file in files})
sounds = np.empty((len(files), 16_000, 1), "float32")
for sound, file in zip(sounds, files, strict=True):
    with wave.open(str(file)) as recording:
        samples = np.frombuffer(recording.readframes(16_000), "<i2")
    sound[:, 0] = samples / 32_768
labels = np.array([words.index(file.parent.name) for file in files])

model = keras.Sequential(
    [
        keras.Input((16_000, 1)),
        layers.Conv1D(48, 80, strides=8, activation="relu"),
        layers.Conv1D(128, 9, strides=4, activation="relu"),
        layers.Conv1D(192, 9, strides=4, activation="relu"),
        layers.Conv1D(256, 9, strides=4, activation="relu"),
        layers.GlobalAveragePooling1D(),
        layers.Dense(len(words), dtype="float32"),
    ]
)
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))

started = time.perf_counter()
history = model.fit(sounds, labels, batch_size=24, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(files) * args.epochs} samples in {seconds:.2f} s")
