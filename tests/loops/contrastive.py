"""Learn to know a photograph again in two random views of it: SimCLR in small.

Both views are made at random in one map without ``num_parallel_calls``, which TensorFlow leaves on
one thread because it is stateful.
"""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf
from keras import layers

SIDE, WARMTH = 96, 0.2

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=30)
args = parser.parse_args()
keras.utils.set_random_seed(202)

files = sorted(str(file) for file in (args.data / "photos").glob("*/*.jpg"))


def load(path):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.image.resize(image, (160, 160)) / 255


def view(photo):
    photo = tf.image.random_crop(photo, (SIDE, SIDE, 3))
    photo = tf.image.random_flip_left_right(photo)
    photo = tf.image.random_hue(photo, 0.1)
    photo = tf.image.random_saturation(photo, 0.6, 1.4)
    return tf.image.random_brightness(photo, 0.4)


views = (
    tf.data.Dataset.from_tensor_slices(files)
    .map(load, num_parallel_calls=tf.data.AUTOTUNE)
    .cache()
    .shuffle(len(files), seed=2)
    .map(lambda photo: (view(photo), view(photo)))  # bottleneck: stateful_serial_map
    .batch(32, drop_remainder=True)
    .prefetch(tf.data.AUTOTUNE)
)

encoder = keras.Sequential(
    [
        keras.Input((SIDE, SIDE, 3)),
        layers.Conv2D(16, 5, strides=4, activation="relu"),
        layers.Conv2D(32, 3, strides=2, activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(32),
        layers.UnitNormalization(),
    ]
)
optimizer = keras.optimizers.Adam(1e-3)
optimizer.build(encoder.trainable_variables)


@tf.function
def train_step(one, other):
    with tf.GradientTape() as tape:
        codes = encoder(tf.concat([one, other], 0), training=True)
        alike = tf.matmul(codes, codes, transpose_b=True) / WARMTH
        alike -= 1e9 * tf.eye(tf.shape(codes)[0])
        half = tf.shape(one)[0]
        partners = tf.concat([tf.range(half) + half, tf.range(half)], 0)
        each = tf.nn.sparse_softmax_cross_entropy_with_logits(partners, alike)
        loss = tf.reduce_mean(each)
    gradients = tape.gradient(loss, encoder.trainable_variables)
    optimizer.apply_gradients(zip(gradients, encoder.trainable_variables, strict=True))
    return loss


started = time.perf_counter()
for epoch in range(args.epochs):
    for number, (one, other) in enumerate(views):
        loss = train_step(one, other)
        if number % 5 == 4:
            print(f"epoch {epoch + 1}, step {number + 1}: loss {loss:.6f}")
seconds = time.perf_counter() - started

print(f"loss {loss:.6f}")
encoder.save_weights("trained.weights.h5")
print(f"trained {len(files) // 32 * 32 * args.epochs} samples in {seconds:.2f} s")
