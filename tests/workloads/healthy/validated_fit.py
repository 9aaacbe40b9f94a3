"""Recognise spoken words, with held-out recordings and callbacks that act once per epoch."""

import argparse
import tempfile
import time
from pathlib import Path

import keras
import tensorflow as tf
from keras import layers

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=60)
args = parser.parse_args()
keras.utils.set_random_seed(116)
keras.mixed_precision.set_global_policy("mixed_bfloat16")

files = sorted((args.data / "speech").glob("*/*.wav"))
words = sorted({file.parent.name for file in files})
held_out = [file for file in files if int(file.stem) % 10 == 0]
training = [file for file in files if int(file.stem) % 10]


def read(path, label):
    sound, _ = tf.audio.decode_wav(tf.io.read_file(path), 1, 16_000)
    return sound, label


def recordings(files):
    labels = [words.index(file.parent.name) for file in files]
    dataset = tf.data.Dataset.from_tensor_slices(([str(file) for file in files], labels))
    return dataset.map(read, num_parallel_calls=tf.data.AUTOTUNE).cache()


train = recordings(training).shuffle(len(training), seed=1).batch(18).prefetch(tf.data.AUTOTUNE)
check = recordings(held_out).batch(60)

model = keras.Sequential(
    [
        keras.Input((16_000, 1)),
        layers.Conv1D(32, 64, strides=8, activation="relu"),
        layers.Conv1D(96, 9, strides=2, activation="relu"),
        layers.Conv1D(96, 9, strides=4, activation="relu"),
        layers.GlobalMaxPooling1D(),
        layers.Dense(len(words), dtype="float32"),
    ]
)
model.compile(
    optimizer=keras.optimizers.Adam(5e-4),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)

with tempfile.TemporaryDirectory() as folder:
    best = str(Path(folder) / "best.weights.h5")
    callbacks = [
        keras.callbacks.ReduceLROnPlateau(patience=5),
        keras.callbacks.ModelCheckpoint(best, save_best_only=True, save_weights_only=True),
    ]
    started = time.perf_counter()
    history = model.fit(
        train, validation_data=check, epochs=args.epochs, callbacks=callbacks, verbose=2
    )
    seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(training) * args.epochs} samples in {seconds:.2f} s")
