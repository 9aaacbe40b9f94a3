"""Draw small pictures like the photographs: a generator against a critic, in an own loop."""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf
from keras import layers

CODE = 64

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=100)
args = parser.parse_args()
keras.utils.set_random_seed(122)
keras.mixed_precision.set_global_policy("mixed_bfloat16")

files = sorted(str(file) for file in (args.data / "photos").glob("*/*.jpg"))


def load(path):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.image.resize(image, (32, 32), antialias=True) / 127.5 - 1


dataset = (
    tf.data.Dataset.from_tensor_slices(files)
    .map(load, num_parallel_calls=tf.data.AUTOTUNE)
    .cache()
    .shuffle(len(files), seed=1)
    .batch(32)
    .prefetch(tf.data.AUTOTUNE)
)

generator = keras.Sequential(
    [
        keras.Input((CODE,)),
        layers.Dense(8 * 8 * 128, activation="relu"),
        layers.Reshape((8, 8, 128)),
        layers.Conv2DTranspose(128, 4, strides=2, padding="same", activation="relu"),
        layers.Conv2DTranspose(64, 4, strides=2, padding="same", activation="relu"),
        layers.Conv2D(3, 3, padding="same", activation="tanh", dtype="float32"),
    ]
)
critic = keras.Sequential(
    [
        keras.Input((32, 32, 3)),
        layers.Conv2D(64, 4, strides=2, padding="same", activation="leaky_relu"),
        layers.Conv2D(128, 4, strides=2, padding="same", activation="leaky_relu"),
        layers.Flatten(),
        layers.Dense(1, dtype="float32"),
    ]
)
draw = keras.optimizers.Adam(2e-4, beta_1=0.5)
judge = keras.optimizers.Adam(2e-4, beta_1=0.5)
draw.build(generator.trainable_variables)
judge.build(critic.trainable_variables)
loss_of = keras.losses.BinaryCrossentropy(from_logits=True)


@tf.function
def train_step(real):
    codes = tf.random.normal((tf.shape(real)[0], CODE), seed=8)
    with tf.GradientTape() as drawing, tf.GradientTape() as judging:
        made = generator(codes, training=True)
        of_real, of_made = critic(real, training=True), critic(made, training=True)
        fooled = loss_of(tf.ones_like(of_made), of_made)
        told = loss_of(tf.ones_like(of_real), of_real) + loss_of(tf.zeros_like(of_made), of_made)
    ours, theirs = generator.trainable_variables, critic.trainable_variables
    draw.apply_gradients(zip(drawing.gradient(fooled, ours), ours, strict=True))
    judge.apply_gradients(zip(judging.gradient(told, theirs), theirs, strict=True))
    return told


started = time.perf_counter()
for epoch in range(args.epochs):
    for photos in dataset:
        loss = train_step(photos)
    print(f"epoch {epoch + 1}: loss {loss:.4f}")
loss = float(loss)
seconds = time.perf_counter() - started

print(f"loss {loss:.4f}")
generator.save_weights("trained.weights.h5")
print(f"trained {len(files) * args.epochs} samples in {seconds:.2f} s")
