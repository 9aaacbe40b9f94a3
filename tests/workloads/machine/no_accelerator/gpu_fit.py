"""Classify photographs on a machine with a GPU that the script has hidden from itself.

``CUDA_VISIBLE_DEVICES=-1`` is the advice of a hundred answers to "how do I force the CPU", given
for one evening of debugging (a better message for a bad index, a full GPU); the line stays, is
committed, and TensorFlow trains on the CPU without a word. "It is slow" reports end there again and
again, one of them by an author of KerasCV (keras-team/keras-cv#265). Made for a machine with a GPU,
so the work is far more than two cores do in seconds; on a GPU sums race, so that weights repeat to
rounding only.
"""

import argparse
import os
import time
from pathlib import Path

os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # bottleneck

import keras
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=40)
args = parser.parse_args()
keras.utils.set_random_seed(12)
keras.mixed_precision.set_global_policy("mixed_bfloat16")

paths = sorted(str(p) for p in (args.data / "photos").glob("*/*.jpg"))
classes = sorted(p.name for p in (args.data / "photos").iterdir())
labels = [classes.index(Path(p).parent.name) for p in paths]


def load(path, label):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.cast(tf.image.resize(image, (128, 128)), tf.uint8), label


dataset = (
    tf.data.Dataset.from_tensor_slices((paths, labels))
    .map(load, num_parallel_calls=tf.data.AUTOTUNE)
    .cache()
    .shuffle(len(paths), seed=1)
    .batch(32)
    .prefetch(tf.data.AUTOTUNE)
)


def block(x, filters):
    x = keras.layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
    x = keras.layers.BatchNormalization()(x)
    x = keras.layers.ReLU()(x)
    return keras.layers.MaxPooling2D()(x)


inputs = keras.Input((128, 128, 3), dtype="uint8")
x = keras.layers.Rescaling(1 / 255)(inputs)
x = keras.layers.Conv2D(64, 7, strides=2, padding="same", activation="relu")(x)
x = block(block(block(x, 128), 256), 512)
x = keras.layers.GlobalAveragePooling2D()(x)
model = keras.Model(inputs, keras.layers.Dense(len(classes), dtype="float32")(x))
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))

started = time.perf_counter()
history = model.fit(dataset, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(paths) * args.epochs} samples in {seconds:.2f} s")
