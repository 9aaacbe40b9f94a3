"""Recognise spoken words with an LSTM; the kernels choose their own instructions."""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=60)
args = parser.parse_args()
keras.utils.set_random_seed(11)

files = sorted((args.data / "speech").glob("*/*.wav"))
words = sorted({file.parent.name for file in files})
labels = [words.index(file.parent.name) for file in files]


def read(path, label):
    sound, _ = tf.audio.decode_wav(tf.io.read_file(path), 1, 16_000)
    return tf.reshape(sound, (125, 128)), label  # frames of 8 ms


dataset = (
    tf.data.Dataset.from_tensor_slices(([str(file) for file in files], labels))
    .map(read, num_parallel_calls=tf.data.AUTOTUNE)
    .cache()
    .shuffle(len(files), seed=1)
    .batch(40)
    .prefetch(tf.data.AUTOTUNE)
)

model = keras.Sequential(
    [
        keras.Input((125, 128)),
        keras.layers.LSTM(112),
        keras.layers.Dense(len(words)),
    ]
)
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))

started = time.perf_counter()
history = model.fit(dataset, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(files) * args.epochs} samples in {seconds:.2f} s")
