"""Tell photographs apart by their colours, four rows at a time; decoded pictures are shuffled.

``shuffle`` fills its buffer before it gives the first batch, and here each element of it has been
decoded and varied, each photograph three times. An epoch is a ninth of them, to end sooner, but all
are made at its start, while the network waits; names in the buffer would cost nothing. The pause at
the start of epochs is reported in tensorflow#47067 and others.
"""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf

STEPS, BATCH = 8, 20  # in an epoch: others each time
COPIES = 3  # of each photograph, each in other colours
AUTOTUNE = tf.data.AUTOTUNE

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=50)
args = parser.parse_args()
keras.utils.set_random_seed(111)

paths = sorted(str(p) for p in (args.data / "photos").glob("*/*.jpg")) * COPIES
classes = sorted(p.name for p in (args.data / "photos").iterdir())
targets = [classes.index(Path(p).parent.name) for p in paths]


def varied(file, seed):
    """The photograph, small, in other colours each time."""
    path, target = file
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    image = tf.image.resize(image, (112, 112)) / 255.0
    image = tf.image.stateless_random_hue(image, 0.1, seed)
    return tf.image.stateless_random_contrast(image, 0.6, 1.6, seed), target


files = tf.data.Dataset.from_tensor_slices((paths, targets))
seeds = tf.data.Dataset.random(seed=112, rerandomize_each_iteration=True).batch(2)
dataset = (
    tf.data.Dataset.zip(files, seeds)
    .map(varied, num_parallel_calls=AUTOTUNE)
    .shuffle(len(paths), seed=113)  # bottleneck
    .batch(BATCH)
    .take(STEPS)
    .prefetch(AUTOTUNE)
)

model = keras.Sequential(
    [
        keras.Input((112, 112, 3)),
        keras.layers.Reshape((28, 1344)),
        keras.layers.LSTM(64, return_sequences=True),
        keras.layers.LSTM(64),
        keras.layers.Dense(len(classes)),
    ]
)
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))

started = time.perf_counter()
history = model.fit(dataset, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {BATCH * STEPS * args.epochs} samples in {seconds:.2f} s")
