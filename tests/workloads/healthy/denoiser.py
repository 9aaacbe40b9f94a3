"""Remove noise from photographs with a convolutional autoencoder.

The photographs are bytes until the model; the noise is drawn there too, inside the compiled step.
"""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf
from keras import layers

SIDE = 64

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=60)
args = parser.parse_args()
keras.utils.set_random_seed(109)
keras.mixed_precision.set_global_policy("mixed_bfloat16")

files = sorted(str(file) for file in (args.data / "photos").glob("*/*.jpg"))


def load(path):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.image.resize(image, (SIDE, SIDE)) / 255


clean = tf.data.Dataset.from_tensor_slices(files)
clean = clean.map(load, num_parallel_calls=tf.data.AUTOTUNE).cache()
clean = clean.shuffle(len(files), seed=3).batch(24)
dataset = clean.map(lambda image: (image, image)).prefetch(tf.data.AUTOTUNE)

inputs = keras.Input((SIDE, SIDE, 3))
x = layers.GaussianNoise(0.1, seed=4)(inputs)
x = layers.Conv2D(32, 3, strides=2, padding="same", activation="relu")(x)
x = layers.Conv2D(128, 3, strides=2, padding="same", activation="relu")(x)
x = layers.Conv2D(128, 3, padding="same", activation="relu")(x)
x = layers.Conv2DTranspose(64, 4, strides=2, padding="same", activation="relu")(x)
x = layers.Conv2DTranspose(32, 4, strides=2, padding="same", activation="relu")(x)
outputs = layers.Conv2D(3, 3, padding="same", activation="sigmoid", dtype="float32")(x)
model = keras.Model(inputs, outputs)
model.compile(keras.optimizers.Adam(1e-3), loss="mean_squared_error")

started = time.perf_counter()
history = model.fit(dataset, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.5f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(files) * args.epochs} samples in {seconds:.2f} s")
