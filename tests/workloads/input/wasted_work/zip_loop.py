"""Recognise words and the takes they come from; each spectrogram is computed four times.

The training step wants inputs, targets and weights apart, so the dataset is split into four and
zipped again. Each of the four maps starts from the files: the three that keep only a number compute
a whole spectrogram for it. The sound is shifted at random, so none of it can be kept.
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
parser.add_argument("--epochs", type=int, default=40)
args = parser.parse_args()
keras.utils.set_random_seed(53)

PASSES = 2

files = sorted((args.data / "speech").glob("*/*.wav")) * PASSES
files = [files[i] for i in np.random.default_rng(54).permutation(len(files))]
words = sorted({f.parent.name for f in files})
word_of = [words.index(f.parent.name) for f in files]
take_of = [int(f.stem) for f in files]
weight_of = [0.5 if f.stem < "010" else 1.0 for f in files]  # the first takes were practice
mel = tf.signal.linear_to_mel_weight_matrix(64, 257, 16_000, 60, 7_600)


def load(example, seed):
    path, word, take, weight = example
    wave, _ = tf.audio.decode_wav(tf.io.read_file(path), 1, 16_000)
    shift = tf.random.stateless_uniform((), seed, -2_000, 2_000, tf.int32)
    frames = tf.signal.stft(tf.roll(wave[:, 0], shift, 0), 400, 160, 512)
    return tf.math.log(tf.abs(frames) ** 2 @ mel + 1e-6), word, take, weight


names = [str(f) for f in files]
examples = tf.data.Dataset.from_tensor_slices((names, word_of, take_of, weight_of))
seeds = tf.data.Dataset.random(seed=55, rerandomize_each_iteration=True)
examples = tf.data.Dataset.zip((examples, seeds.batch(2, drop_remainder=True)))
examples = examples.map(load, num_parallel_calls=tf.data.AUTOTUNE)
sounds = examples.map(lambda sound, word, take, weight: sound)
said = examples.map(lambda sound, word, take, weight: word)  # bottleneck
takes = examples.map(lambda sound, word, take, weight: take)  # bottleneck
weights = examples.map(lambda sound, word, take, weight: weight)  # bottleneck
dataset = tf.data.Dataset.zip((sounds, said, takes, weights))
dataset = dataset.shuffle(64, seed=56).batch(32).prefetch(tf.data.AUTOTUNE)

sound = keras.Input((98, 64))
x = layers.Conv1D(128, 5, activation="relu")(sound)
x = layers.Conv1D(128, 5, activation="relu")(x)
x = layers.GlobalMaxPooling1D()(x)
model = keras.Model(sound, [layers.Dense(len(words))(x), layers.Dense(100)(x)])
optimizer = keras.optimizers.Nadam(1e-3)
loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def train_step(sounds, said, takes, weights):
    with tf.GradientTape() as tape:
        word, take = model(sounds, training=True)
        loss = loss_of(said, word, weights) + 0.1 * loss_of(takes, take, weights)
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
