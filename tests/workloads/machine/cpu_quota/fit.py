"""Classify photographs; the process has bound itself to one core of the machine.

The line is copied from a launcher that starts one worker per core, each with its own
``LOCAL_RANK``. Started by hand there is one worker, the rank is 0, and every other core idles;
TensorFlow sizes its thread pools by what it may use and says nothing. Libraries that set the
affinity behind one's back do the same (eth-sri/eran#21, ContinuumIO/anaconda-issues#12021).
"""

import argparse
import os
import time
from pathlib import Path

import keras
import tensorflow as tf
from keras import layers

rank = int(os.environ.get("LOCAL_RANK", "0"))
cores = sorted(os.sched_getaffinity(0))
os.sched_setaffinity(0, {cores[rank % len(cores)]})  # bottleneck

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=60)
args = parser.parse_args()
keras.utils.set_random_seed(16)
keras.mixed_precision.set_global_policy("mixed_bfloat16")

paths = sorted(str(p) for p in (args.data / "photos").glob("*/*.jpg"))
classes = sorted(p.name for p in (args.data / "photos").iterdir())
labels = [classes.index(Path(p).parent.name) for p in paths]


def load(path, label):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.cast(tf.image.resize(image, (72, 72)), tf.uint8), label


dataset = (
    tf.data.Dataset.from_tensor_slices((paths, labels))
    .map(load, num_parallel_calls=tf.data.AUTOTUNE)
    .cache()
    .shuffle(len(paths), seed=1)
    .batch(32)
    .prefetch(tf.data.AUTOTUNE)
)

model = keras.Sequential(
    [
        keras.Input((72, 72, 3), dtype="uint8"),
        layers.Rescaling(1 / 255),
        layers.Conv2D(32, 3, padding="same", activation="relu"),
        layers.Conv2D(64, 3, strides=2, padding="same", activation="relu"),
        layers.Conv2D(128, 3, strides=2, padding="same", activation="relu"),
        layers.Conv2D(128, 3, strides=2, padding="same", activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(len(classes), dtype="float32"),
    ]
)
model.compile(
    optimizer=keras.optimizers.SGD(0.02, momentum=0.9),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)

started = time.perf_counter()
history = model.fit(dataset, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(paths) * args.epochs} samples in {seconds:.2f} s")
