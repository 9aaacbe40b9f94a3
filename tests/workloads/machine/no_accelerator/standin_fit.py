"""Recognise spoken words with an LSTM; the fast part of the processor is hidden.

A stand-in for a GPU that is there and hidden: on a CPU the wide vector units are the accelerator,
and ``ONEDNN_MAX_CPU_ISA`` hides them from TensorFlow's kernels as ``CUDA_VISIBLE_DEVICES=-1`` hides
a GPU. Such a line is written to make an old and a new machine agree to the last digit, or for one
evening of debugging, and stays; oneDNN documents the variable as "CPU dispatcher control".
"""

import argparse
import os
import time
from pathlib import Path

os.environ["ONEDNN_MAX_CPU_ISA"] = "SSE41"  # bottleneck

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
