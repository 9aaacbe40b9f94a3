"""Classify photographs with a small MobileNet in mixed bfloat16.

Half the bytes should be faster, and for plain convolutions they are. The depthwise kernel and the
unfused batch normalisation have no fast bfloat16 path on a CPU: every step takes longer than in
float32. Slow depthwise convolutions in half precision are an old story:
https://github.com/tensorflow/tensorflow/issues/27285, and for CPUs issue 42422.
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
keras.utils.set_random_seed(23)
keras.config.set_dtype_policy("mixed_bfloat16")  # bottleneck

SIZE = 80
folders = sorted(folder for folder in (args.data / "photos").iterdir())
files = [str(file) for folder in folders for file in sorted(folder.glob("*.jpg"))]
labels = np.repeat(np.arange(len(folders)), [len(list(f.glob("*.jpg"))) for f in folders])


def load(file):
    return tf.image.resize(tf.io.decode_jpeg(tf.io.read_file(file), 3), (SIZE, SIZE)) / 255.0


images = tf.data.Dataset.from_tensor_slices(files).map(load, tf.data.AUTOTUNE)
images = images.batch(len(files)).get_single_element()
train = (
    tf.data.Dataset.from_tensor_slices((images, labels))
    .shuffle(len(files), seed=23)
    .batch(32)
    .prefetch(tf.data.AUTOTUNE)
)


def separable(x, filters, stride):
    """Depthwise, then pointwise, each normalised: the building block of MobileNet."""
    x = layers.DepthwiseConv2D(3, strides=stride, padding="same", use_bias=False)(x)
    x = layers.ReLU(6.0)(layers.BatchNormalization()(x))
    x = layers.Conv2D(filters, 1, use_bias=False)(x)
    return layers.ReLU(6.0)(layers.BatchNormalization()(x))


inputs = keras.Input((SIZE, SIZE, 3))
x = layers.Conv2D(16, 3, strides=2, padding="same", activation="relu")(inputs)
for filters, stride in ((32, 1), (48, 2), (96, 2), (96, 1)):
    x = separable(x, filters, stride)
x = layers.GlobalAveragePooling2D()(x)
outputs = layers.Dense(len(folders), activation="softmax", dtype="float32")(x)
model = keras.Model(inputs, outputs)
model.compile(keras.optimizers.Adam(2e-3), loss="sparse_categorical_crossentropy")

begin = time.perf_counter()
history = model.fit(train, epochs=args.epochs, verbose=2)
elapsed = time.perf_counter() - begin

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(files) * args.epochs} samples in {elapsed:.2f} s")
