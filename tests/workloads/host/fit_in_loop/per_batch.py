"""Tell spoken words apart; ``fit`` is called for every batch.

The batches come from a dataset, and the loop over them is one's own, so that each batch could be
looked at; inside, ``fit`` does the training because the model is compiled anyway. Every call makes
a pipeline of the one batch, an iterator over it and a history. Many issues report it, most for the
memory that grows with it (Keras issue 17458).
"""

import argparse
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from keras import layers

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=60)
args = parser.parse_args()
keras.utils.set_random_seed(15)

files = sorted((args.data / "speech").glob("*/*.wav"))
words = sorted({file.parent.name for file in files})
labels = [words.index(file.parent.name) for file in files]


def spectrogram(path, label):
    sound, _ = tf.audio.decode_wav(tf.io.read_file(path), 1, 16_000)
    power = tf.abs(tf.signal.stft(sound[:, 0], 512, 256))[:, :96]
    return tf.math.log(power + 1e-3)[..., None], label


examples = (
    tf.data.Dataset.from_tensor_slices(([str(file) for file in files], labels))
    .map(spectrogram, num_parallel_calls=tf.data.AUTOTUNE)
    .cache()
)
for _ in examples:  # fills the cache
    pass
batches = examples.shuffle(len(files), seed=15).batch(20).prefetch(tf.data.AUTOTUNE)

model = keras.Sequential([keras.Input((61, 96, 1))])
for filters in (16, 32, 48, 64):
    model.add(layers.Conv2D(filters, 3, strides=2, padding="same", activation="relu"))
model.add(layers.GlobalAveragePooling2D())
model.add(layers.Dense(len(words), activation="softmax"))
model.compile(keras.optimizers.Adam(1e-3), loss="sparse_categorical_crossentropy")

started = time.perf_counter()
for epoch in range(args.epochs):
    losses = []
    for x, y in batches:
        history = model.fit(x, y, verbose=0)  # bottleneck
        losses += history.history["loss"]
    print(f"epoch {epoch + 1}: loss {np.mean(losses):.4f}")
seconds = time.perf_counter() - started

print(f"loss {np.mean(losses):.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(files) * args.epochs} samples in {seconds:.2f} s")
