"""Classify photographs; every fifth is held out, but other ones in each epoch.

What ``take`` and ``skip`` part is shuffled anew in each pass, also with a seed: what validates in
one epoch is trained on in the next, so the validation says nothing about photographs never seen. It
is a matter of correctness. TensorFlow's tutorial on loading images shuffles with
``reshuffle_each_iteration=False`` before it splits; who copies it without that trains on what is
held out.
"""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=60)
args = parser.parse_args()
keras.utils.set_random_seed(171)

paths = sorted(str(p) for p in (args.data / "photos").glob("*/*.jpg"))
classes = sorted(p.name for p in (args.data / "photos").iterdir())
labels = [classes.index(Path(p).parent.name) for p in paths]


def load(path, label):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    image = tf.image.resize(image, (128, 128))
    return tf.cast(image, tf.uint8), label


examples = (
    tf.data.Dataset.from_tensor_slices((paths, labels))
    .map(load, num_parallel_calls=tf.data.AUTOTUNE)
    .cache()
    .shuffle(len(paths), seed=172)  # bottleneck
)
held_out = len(paths) // 5
training = examples.skip(held_out).batch(32).prefetch(tf.data.AUTOTUNE)
validation = examples.take(held_out).batch(32).prefetch(tf.data.AUTOTUNE)

inputs = keras.Input((128, 128, 3), dtype="uint8")
x = keras.layers.Rescaling(1 / 127.5, offset=-1)(inputs)
x = keras.layers.Conv2D(16, 5, strides=2, activation="relu")(x)
x = keras.layers.MaxPooling2D()(x)
x = keras.layers.Conv2D(32, 3, activation="relu")(x)
x = keras.layers.GlobalAveragePooling2D()(x)
model = keras.Model(inputs, keras.layers.Dense(len(classes))(x))
model.compile(
    keras.optimizers.Adam(1e-3),
    keras.losses.SparseCategoricalCrossentropy(from_logits=True),
)

started = time.perf_counter()
history = model.fit(training, validation_data=validation, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}, validated {history.history['val_loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {(len(paths) - held_out) * args.epochs} samples in {seconds:.2f} s")
