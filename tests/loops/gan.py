"""Draw small photographs: a generator and a critic, two tapes in one compiled step.

As the tutorials have it, photographs are decoded anew in every epoch, though all of them, made
small, would fill six megabytes.
"""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf
from keras import layers

CODE, SIDE = 64, 32

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=40)
args = parser.parse_args()
keras.utils.set_random_seed(201)

files = sorted(str(file) for file in (args.data / "photos").glob("*/*.jpg"))


def load(path):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.image.resize(image, (SIDE, SIDE), antialias=True) / 127.5 - 1


photos = (
    tf.data.Dataset.from_tensor_slices(files)
    .shuffle(len(files), seed=1)
    .map(load, num_parallel_calls=tf.data.AUTOTUNE)  # bottleneck: cache_missing
    .batch(32)
    .prefetch(tf.data.AUTOTUNE)
)

generator = keras.Sequential(
    [
        keras.Input((CODE,)),
        layers.Dense(8 * 8 * 32, activation="relu"),
        layers.Reshape((8, 8, 32)),
        layers.Conv2DTranspose(32, 4, strides=2, padding="same", activation="relu"),
        layers.Conv2DTranspose(3, 4, strides=2, padding="same", activation="tanh"),
    ]
)
critic = keras.Sequential(
    [
        keras.Input((SIDE, SIDE, 3)),
        layers.Conv2D(32, 4, strides=2, padding="same", activation="leaky_relu"),
        layers.Conv2D(64, 4, strides=2, padding="same", activation="leaky_relu"),
        layers.Flatten(),
        layers.Dense(1),
    ]
)
drawing = keras.optimizers.Adam(2e-4, beta_1=0.5)
judging = keras.optimizers.Adam(2e-4, beta_1=0.5)
drawing.build(generator.trainable_variables)
judging.build(critic.trainable_variables)
error = keras.losses.BinaryCrossentropy(from_logits=True)


@tf.function
def train_step(real):
    codes = tf.random.normal((tf.shape(real)[0], CODE), seed=8)
    with tf.GradientTape() as generator_tape, tf.GradientTape() as critic_tape:
        made = generator(codes, training=True)
        of_real, of_made = critic(real, training=True), critic(made, training=True)
        fooled = error(tf.ones_like(of_made), of_made)
        told = error(tf.ones_like(of_real), of_real) + error(tf.zeros_like(of_made), of_made)
    ours, theirs = generator.trainable_variables, critic.trainable_variables
    drawing.apply_gradients(zip(generator_tape.gradient(fooled, ours), ours, strict=True))
    judging.apply_gradients(zip(critic_tape.gradient(told, theirs), theirs, strict=True))
    return fooled, told


started = time.perf_counter()
for epoch in range(args.epochs):
    for real in photos:
        fooled, told = train_step(real)
    print(f"epoch {epoch + 1}: loss {fooled:.6f} {told:.6f}")
seconds = time.perf_counter() - started

print(f"loss {told:.6f}")
generator.save_weights("trained.weights.h5")
print(f"trained {len(files) * args.epochs} samples in {seconds:.2f} s")
