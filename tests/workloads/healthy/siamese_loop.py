"""Learn whether two recordings say the same word: one encoder, two inputs, an own loop."""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf
from keras import layers

MARGIN = 1.0

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=60)
args = parser.parse_args()
keras.utils.set_random_seed(112)
keras.mixed_precision.set_global_policy("mixed_bfloat16")

files = sorted((args.data / "speech").glob("*/*.wav"))
words = sorted({file.parent.name for file in files})
labels = [words.index(file.parent.name) for file in files]


def read(path, label):
    sound, _ = tf.audio.decode_wav(tf.io.read_file(path), 1, 16_000)
    return sound, label


recordings = (
    tf.data.Dataset.from_tensor_slices(([str(file) for file in files], labels))
    .map(read, num_parallel_calls=tf.data.AUTOTUNE)
    .cache()
)
left = recordings.shuffle(len(files), seed=1).batch(24)
right = recordings.shuffle(len(files), seed=2).batch(24)
pairs = tf.data.Dataset.zip(left, right).prefetch(tf.data.AUTOTUNE)

encoder = keras.Sequential(
    [
        keras.Input((16_000, 1)),
        layers.Conv1D(32, 80, strides=8, activation="relu"),
        layers.Conv1D(64, 9, strides=4, activation="relu"),
        layers.Conv1D(128, 9, strides=4, activation="relu"),
        layers.GlobalAveragePooling1D(),
        layers.Dense(32, dtype="float32"),
    ]
)
optimizer = keras.optimizers.Adam(1e-3)
optimizer.build(encoder.trainable_variables)


@tf.function
def train_step(left, right):
    (sound_a, word_a), (sound_b, word_b) = left, right
    same = tf.cast(word_a == word_b, tf.float32)
    with tf.GradientTape() as tape:
        codes = encoder(tf.concat([sound_a, sound_b], 0), training=True)
        code_a, code_b = tf.split(codes, 2)
        squared = tf.reduce_sum(tf.square(code_a - code_b), axis=1)
        apart = tf.square(tf.nn.relu(MARGIN - tf.sqrt(squared + 1e-6)))
        loss = tf.reduce_mean(same * squared + (1 - same) * apart)
    gradients = tape.gradient(loss, encoder.trainable_variables)
    optimizer.apply_gradients(zip(gradients, encoder.trainable_variables, strict=True))
    return loss


started = time.perf_counter()
for epoch in range(args.epochs):
    for left, right in pairs:
        loss = train_step(left, right)
    print(f"epoch {epoch + 1}: loss {loss:.4f}")
loss = float(loss)
seconds = time.perf_counter() - started

print(f"loss {loss:.4f}")
encoder.save_weights("trained.weights.h5")
print(f"trained {len(files) * args.epochs} samples in {seconds:.2f} s")
