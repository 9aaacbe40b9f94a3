"""Recognise spoken words; SpecAugment's masks come below the shuffle, and the script has a seed.

Each spectrogram loses a random band of time and one of pitch, to keep the network from relying on
any one of them. The recordings reach the masks in the same order in every epoch, and with
``set_random_seed`` the ops that draw have a seed and begin again with each pass over the dataset:
each recording lacks the same bands in every epoch. The guide to ``tf.random.set_seed`` says that
the numbers begin again where the kernel is made anew; that an epoch does so, it does not.
"""

import argparse
import random
import time
from pathlib import Path

import keras
import tensorflow as tf
from keras import layers

FRAMES, PITCHES = 98, 64

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=50)
args = parser.parse_args()
keras.utils.set_random_seed(7)

files = sorted((args.data / "speech").glob("*/*.wav"))
random.shuffle(files)
words = sorted({file.parent.name for file in files})
labels = [words.index(file.parent.name) for file in files]
mel = tf.signal.linear_to_mel_weight_matrix(PITCHES, 257, 16_000, 60, 7_600)


def spectrogram(path, label):
    wave, _ = tf.audio.decode_wav(tf.io.read_file(path), 1, 16_000)
    power = tf.abs(tf.signal.stft(wave[:, 0], 400, 160, 512)) ** 2
    return tf.math.log(power @ mel + 1e-6), label


def hide(length, width):
    start = tf.random.uniform((), 0, length - width, tf.int32)
    place = tf.range(length)
    return tf.cast((place < start) | (place >= start + width), tf.float32)


def mask(sound, label):
    return sound * hide(FRAMES, 20)[:, None] * hide(PITCHES, 12), label


dataset = tf.data.Dataset.from_tensor_slices(([str(f) for f in files], labels))
dataset = dataset.map(spectrogram, num_parallel_calls=tf.data.AUTOTUNE)
dataset = dataset.cache()
dataset = dataset.map(mask)  # bottleneck
dataset = dataset.shuffle(len(files), seed=8)
dataset = dataset.batch(30).prefetch(tf.data.AUTOTUNE)

sound = keras.Input((FRAMES, PITCHES))
x = layers.Conv1D(192, 5, activation="relu")(sound)
x = layers.Conv1D(192, 5, activation="relu")(x)
x = layers.Conv1D(192, 5, activation="relu")(x)
x = layers.GlobalMaxPooling1D()(x)
model = keras.Model(sound, layers.Dense(len(words))(x))
optimizer = keras.optimizers.Adam(5e-4)
loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def train_step(sounds, targets):
    with tf.GradientTape() as tape:
        loss = loss_of(targets, model(sounds, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply(gradients, model.trainable_variables)
    return loss


started = time.perf_counter()
for epoch in range(args.epochs):
    losses = [train_step(*batch) for batch in dataset]
    print(f"epoch {epoch + 1}: loss {float(tf.reduce_mean(losses)):.4f}")
last = float(tf.reduce_mean(losses))
seconds = time.perf_counter() - started

print(f"loss {last:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(files) * args.epochs} samples in {seconds:.2f} s")
