"""Name the class of a photograph and guess its mean colour, with two heads on one trunk."""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf
from keras import layers

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=60)
args = parser.parse_args()
keras.utils.set_random_seed(113)
keras.mixed_precision.set_global_policy("mixed_bfloat16")

paths = sorted(str(p) for p in (args.data / "photos").glob("*/*.jpg"))
classes = sorted(p.name for p in (args.data / "photos").iterdir())
labels = [classes.index(Path(p).parent.name) for p in paths]


def load(path, label):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    image = tf.image.resize(image, (90, 120))
    colour = tf.reduce_mean(image, axis=(0, 1)) / 255
    return tf.cast(image, tf.uint8), {"kind": label, "colour": colour}


dataset = (
    tf.data.Dataset.from_tensor_slices((paths, labels))
    .map(load, num_parallel_calls=tf.data.AUTOTUNE)
    .cache()
    .shuffle(len(paths), seed=1)
    .batch(20)
    .prefetch(tf.data.AUTOTUNE)
)

inputs = keras.Input((90, 120, 3), dtype="uint8")
x = layers.Rescaling(1 / 255)(inputs)
for filters in (32, 64, 128):
    x = layers.Conv2D(filters, 3, strides=2, padding="same", activation="relu")(x)
    x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
x = layers.GlobalAveragePooling2D()(x)
kind = layers.Dense(len(classes), dtype="float32", name="kind")(x)
colour = layers.Dense(3, activation="sigmoid", dtype="float32", name="colour")(x)
model = keras.Model(inputs, {"kind": kind, "colour": colour})
model.compile(
    optimizer=keras.optimizers.Adam(1e-3),
    loss={
        "kind": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        "colour": "mean_squared_error",
    },
    loss_weights={"kind": 1.0, "colour": 5.0},
)

started = time.perf_counter()
history = model.fit(dataset, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(paths) * args.epochs} samples in {seconds:.2f} s")
