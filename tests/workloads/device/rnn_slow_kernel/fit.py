"""Recognise spoken words with an LSTM that drops recurrent connections.

``recurrent_dropout`` was copied with the layer. No fast kernel knows it: on a GPU there is no cuDNN
(https://github.com/tensorflow/tensorflow/issues/40944 asks for it), and everywhere each of the four
gates gets a mask and a product of its own in every time step. Dropout of the inputs regularises as
well, and costs next to nothing.
"""

import argparse
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=60)
args = parser.parse_args()
keras.utils.set_random_seed(9)

files = sorted((args.data / "speech").glob("*/*.wav"))
words = sorted({file.parent.name for file in files})
labels = np.array([words.index(file.parent.name) for file in files])
sounds = tf.stack(
    [tf.audio.decode_wav(tf.io.read_file(str(file)), 1, 16_000).audio[:, 0] for file in files]
)

# The spectra do not change, so they are computed once, here.
spectra = keras.layers.MelSpectrogram(
    num_mel_bins=40, fft_length=512, sequence_stride=200, sampling_rate=16_000
)(sounds)
spectra = tf.transpose(spectra, (0, 2, 1)) / 20.0

dataset = (
    tf.data.Dataset.from_tensor_slices((spectra, labels))
    .shuffle(len(files), seed=9)
    .batch(24)
    .prefetch(tf.data.AUTOTUNE)
)

model = keras.Sequential(
    [
        keras.Input(spectra.shape[1:]),
        keras.layers.LSTM(128, recurrent_dropout=0.2),  # bottleneck
        keras.layers.Dense(len(words), activation="softmax"),
    ]
)
model.compile(keras.optimizers.RMSprop(1e-3), "sparse_categorical_crossentropy")

start = time.perf_counter()
history = model.fit(dataset, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - start

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(files) * args.epochs} samples in {seconds:.2f} s")
