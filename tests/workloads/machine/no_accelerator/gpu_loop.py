"""Recognise spoken words with an own training step, which is pinned to the CPU.

The device scope was written when the GPU's memory ran out once, and outlived the reason:
everything inside it stays on the CPU, however many GPUs TensorFlow lists. Nothing warns, since it
is what was asked for; DeepLabCut/DeepLabCut#2455 is one of many threads that look for a missing
driver instead. Made for a machine with a GPU, so the work is far more than two cores do in seconds;
on a GPU sums race, so that weights repeat to rounding only.
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
keras.utils.set_random_seed(13)
keras.mixed_precision.set_global_policy("mixed_bfloat16")

files = sorted((args.data / "speech").glob("*/*.wav"))
words = sorted({file.parent.name for file in files})


def read(path, label):
    sound, _ = tf.audio.decode_wav(tf.io.read_file(path), 1, 16_000)
    return sound, label


labels = [words.index(file.parent.name) for file in files]
dataset = (
    tf.data.Dataset.from_tensor_slices(([str(file) for file in files], labels))
    .map(read, num_parallel_calls=tf.data.AUTOTUNE)
    .cache()
    .shuffle(len(files), seed=1)
    .batch(50)
    .prefetch(tf.data.AUTOTUNE)
)

model = keras.Sequential(
    [
        keras.Input((16_000, 1)),
        layers.Conv1D(128, 40, strides=4, activation="relu"),
        layers.Conv1D(256, 9, strides=2, activation="relu"),
        layers.Conv1D(256, 9, strides=2, activation="relu"),
        layers.Conv1D(512, 9, strides=2, activation="relu"),
        layers.GlobalAveragePooling1D(),
        layers.Dense(len(words), dtype="float32"),
    ]
)
loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = keras.optimizers.Adam(3e-4)
optimizer.build(model.trainable_variables)


@tf.function
def train_step(sound, label):
    with tf.device("/CPU:0"):  # bottleneck
        with tf.GradientTape() as tape:
            loss = loss_of(label, model(sound, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


started = time.perf_counter()
for epoch in range(args.epochs):
    for sound, label in dataset:
        loss = train_step(sound, label)
    print(f"epoch {epoch + 1}: loss {loss:.4f}")
loss = float(loss)
seconds = time.perf_counter() - started

print(f"loss {loss:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(files) * args.epochs} samples in {seconds:.2f} s")
