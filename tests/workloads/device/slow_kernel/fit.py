"""Classify photographs with a ResNeXt-like network: grouped convolutions.

Groups save seven eighths of the arithmetic. But on a CPU, Keras compiles a grouped convolution
apart with XLA (they "are broken on CPU without XLA", says its source), and these loops are tens of
times slower than oneDNN's ordinary convolution. Also on a GPU groups disappoint:
https://github.com/tensorflow/tensorflow/issues/49147.
"""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf
from keras import layers

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=40)
args = parser.parse_args()
keras.utils.set_random_seed(14)
keras.config.set_dtype_policy("mixed_bfloat16")

SIZE, BATCH = 96, 16
paths = sorted((args.data / "photos").glob("*/*.jpg"))
kinds = sorted({path.parent.name for path in paths})


def read(path, label):
    pixels = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.cast(tf.image.resize(pixels, (SIZE, SIZE)), tf.uint8), label


everything = (
    tf.data.Dataset.from_tensor_slices(
        ([str(path) for path in paths], [kinds.index(path.parent.name) for path in paths])
    )
    .map(read, num_parallel_calls=tf.data.AUTOTUNE)
    .batch(len(paths))
    .get_single_element()
)
train = (
    tf.data.Dataset.from_tensor_slices(everything)
    .shuffle(len(paths), seed=14)
    .batch(BATCH)
    .prefetch(tf.data.AUTOTUNE)
)


def block(x, filters):
    """Narrow, look around in eight groups, widen, add."""
    y = layers.Conv2D(filters // 3, 1, activation="relu")(x)
    y = layers.Conv2D(filters // 3, 3, padding="same", groups=8, activation="relu")(y)  # bottleneck
    return layers.ReLU()(layers.Add()([x, layers.Conv2D(filters, 1)(y)]))


inputs = keras.Input((SIZE, SIZE, 3))
x = layers.Rescaling(1 / 127.5, offset=-1)(inputs)
x = layers.Conv2D(32, 5, strides=2, activation="relu")(x)
x = layers.Conv2D(64, 3, strides=2, activation="relu")(x)
x = layers.Conv2D(96, 3, strides=2, activation="relu")(x)
x = block(x, 96)
x = layers.GlobalAveragePooling2D()(x)
model = keras.Model(inputs, layers.Dense(len(kinds), dtype="float32")(x))
model.compile(
    keras.optimizers.SGD(0.02, momentum=0.9),
    keras.losses.SparseCategoricalCrossentropy(from_logits=True),
)

start = time.perf_counter()
history = model.fit(train, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - start

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(paths) * args.epochs} samples in {seconds:.2f} s")
