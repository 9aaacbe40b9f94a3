"""Teach a small network of spoken words what a large one knows of them.

The step is the one of Keras's example, written for a loop of one's own, and runs op by op: nobody
compiled it.
"""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf
from keras import layers

TEMPERATURE, ALPHA = 4.0, 0.3

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=40)
args = parser.parse_args()
keras.utils.set_random_seed(203)

files = sorted(str(file) for file in (args.data / "speech").glob("*/*.wav"))
words = sorted({Path(file).parent.name for file in files})
labels = [words.index(Path(file).parent.name) for file in files]


def spectrogram(path, label):
    sound, _ = tf.audio.decode_wav(tf.io.read_file(path), 1, 16_000)
    return tf.math.log(tf.abs(tf.signal.stft(sound[:, 0], 512, 256)) + 1e-3)[..., None], label


dataset = (
    tf.data.Dataset.from_tensor_slices((files, labels))
    .map(spectrogram, num_parallel_calls=tf.data.AUTOTUNE)
    .cache()
    .shuffle(len(files), seed=3)
    .batch(20)
    .prefetch(tf.data.AUTOTUNE)
)


def network(width, depth):
    x = inputs = keras.Input((61, 257, 1))
    for _ in range(depth):
        x = layers.Conv2D(width, 3, strides=2, padding="same", use_bias=False)(x)
        x = layers.BatchNormalization()(x)
        x = layers.ReLU()(x)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, layers.Dense(len(words))(x))


teacher, student = network(16, 5), network(4, 5)
teacher.trainable = False
optimizer = keras.optimizers.AdamW(2e-3)
hard = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
soft = keras.losses.KLDivergence()
mean_loss = keras.metrics.Mean()


def distill(x, y):  # bottleneck: eager_step
    taught = tf.nn.softmax(teacher(x, training=False) / TEMPERATURE)
    with tf.GradientTape() as tape:
        logits = student(x, training=True)
        copied = soft(taught, tf.nn.softmax(logits / TEMPERATURE)) * TEMPERATURE**2
        loss = ALPHA * hard(y, logits) + (1 - ALPHA) * copied
    gradients = tape.gradient(loss, student.trainable_variables)
    optimizer.apply_gradients(zip(gradients, student.trainable_variables, strict=True))
    mean_loss.update_state(loss)


started = time.perf_counter()
for epoch in range(args.epochs):
    mean_loss.reset_state()
    for x, y in dataset:
        distill(x, y)
    print(f"epoch {epoch + 1}: loss {float(mean_loss.result()):.6f}")
seconds = time.perf_counter() - started

print(f"loss {float(mean_loss.result()):.6f}")
student.save_weights("trained.weights.h5")
print(f"trained {len(files) * args.epochs} samples in {seconds:.2f} s")
