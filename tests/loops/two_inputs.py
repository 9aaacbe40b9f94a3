"""Tell where a photograph was taken from its picture and its colours: a dictionary of two inputs.

The photographs are decoded by a map that runs one of them at a time.
"""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf
from keras import layers

SIDE, BINS = 64, 16

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=20)
args = parser.parse_args()
keras.utils.set_random_seed(206)

files = sorted((args.data / "photos").glob("*/*.jpg"))
places = sorted({file.parent.name for file in files})
table = {
    "file": [str(file) for file in files],
    "place": [places.index(file.parent.name) for file in files],
}


def read(row):
    photo = tf.io.decode_jpeg(tf.io.read_file(row["file"]), channels=3)
    photo = tf.image.random_flip_left_right(tf.image.resize(photo, (SIDE, SIDE)))
    colours = tf.one_hot(tf.cast(photo, tf.int32) * BINS // 256, BINS)
    inputs = {"picture": photo / 255, "colours": tf.reduce_mean(colours, axis=(0, 1))}
    return inputs, row["place"]


dataset = (
    tf.data.Dataset.from_tensor_slices(table)
    .shuffle(len(files), seed=6)
    .map(read)  # bottleneck: stateful_serial_map
    .batch(16)
    .prefetch(tf.data.AUTOTUNE)
)

picture = keras.Input((SIDE, SIDE, 3), name="picture")
colours = keras.Input((3, BINS), name="colours")
x = layers.Conv2D(16, 5, strides=2, activation="relu")(picture)
x = layers.Conv2D(32, 3, strides=2, activation="relu")(x)
both = layers.Concatenate()([layers.GlobalAveragePooling2D()(x), layers.Flatten()(colours)])
both = layers.Dense(32, activation="relu")(both)
model = keras.Model({"picture": picture, "colours": colours}, layers.Dense(len(places))(both))
optimizer = keras.optimizers.SGD(0.02, momentum=0.9, nesterov=True)
optimizer.build(model.trainable_variables)
error = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
right = keras.metrics.SparseCategoricalAccuracy()


@tf.function
def train_step(inputs, place):
    with tf.GradientTape() as tape:
        logits = model(inputs, training=True)
        loss = error(place, logits)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    right.update_state(place, logits)
    return loss


started = time.perf_counter()
for epoch in range(args.epochs):
    right.reset_state()
    for inputs, place in dataset:
        loss = train_step(inputs, place)
    print(f"epoch {epoch + 1}: loss {loss:.6f}, right {float(right.result()):.3f}")
seconds = time.perf_counter() - started

print(f"loss {loss:.6f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(files) * args.epochs} samples in {seconds:.2f} s")
