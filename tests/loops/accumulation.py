"""Recognise spoken words; four small batches make one update of the weights.

The recordings come from a Python generator, one after the other, with the spectrum made in NumPy.
"""

import argparse
import time
import wave
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from keras import layers

EVERY = 4

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=30)
args = parser.parse_args()
keras.utils.set_random_seed(205)

files = sorted((args.data / "speech").glob("*/*.wav"))
words = sorted({file.parent.name for file in files})
window = np.hanning(512)


def recordings():
    for file in files:
        with wave.open(str(file), "rb") as sound:
            signal = np.frombuffer(sound.readframes(16_000), "<i2") / 32_768
        frames = np.lib.stride_tricks.sliding_window_view(signal, 512)[::64] * window
        spectrum = np.log(np.abs(np.fft.rfft(frames)) + 1e-3)
        yield spectrum[:240].astype("float32"), words.index(file.parent.name)


dataset = (
    tf.data.Dataset.from_generator(  # bottleneck: python_loader
        recordings,
        output_signature=(tf.TensorSpec((240, 257)), tf.TensorSpec((), tf.int64)),
    )
    .shuffle(len(files), seed=5)
    .batch(10)
    .prefetch(tf.data.AUTOTUNE)
)

model = keras.Sequential(
    [
        keras.Input((240, 257)),
        layers.Conv1D(32, 5, strides=3, activation="relu"),
        layers.Conv1D(32, 5, strides=3, activation="relu"),
        layers.GlobalAveragePooling1D(),
        layers.Dense(len(words)),
    ]
)
optimizer = keras.optimizers.Nadam(1e-3)
optimizer.build(model.trainable_variables)
error = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
gathered = [tf.Variable(tf.zeros_like(v), trainable=False) for v in model.trainable_variables]


@tf.function
def gather(x, y):
    with tf.GradientTape() as tape:
        loss = error(y, model(x, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    for whole, part in zip(gathered, gradients, strict=True):
        whole.assign_add(part / EVERY)
    return loss


@tf.function
def update():
    optimizer.apply_gradients(zip(gathered, model.trainable_variables, strict=True))
    for whole in gathered:
        whole.assign(tf.zeros_like(whole))


started = time.perf_counter()
for epoch in range(args.epochs):
    for number, (x, y) in enumerate(dataset, 1):
        loss = gather(x, y)
        if number % EVERY == 0:
            update()
    print(f"epoch {epoch + 1}: loss {loss:.6f}")
seconds = time.perf_counter() - started

print(f"loss {loss:.6f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(files) * args.epochs} samples in {seconds:.2f} s")
