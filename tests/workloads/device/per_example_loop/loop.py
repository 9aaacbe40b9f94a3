"""Learn an embedding of spoken words by comparing recordings, one anchor after the other.

The supervised contrastive loss is written as in the paper: a sum over anchors. ``for i in
tf.range(n)`` becomes a ``tf.while_loop`` of small vector operations, and so does its gradient; one
product of the batch with itself holds all the scores. AutoGraph makes such loops compile, not run
fast; how much they cost is asked about in https://github.com/tensorflow/tensorflow/issues/24774.
"""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=60)
args = parser.parse_args()
keras.utils.set_random_seed(5)

BATCH, FRAMES, TEMPERATURE = 60, 64, 0.1


def windows(file):
    """Seven overlapping excerpts of the logarithmic spectrum of a recording."""
    sound, _ = tf.audio.decode_wav(tf.io.read_file(file), 1, 16_000)
    spectrum = tf.abs(tf.signal.stft(sound[:, 0], 400, 160, 512))
    mel = spectrum @ tf.signal.linear_to_mel_weight_matrix(40, 257, 16_000)
    return tf.signal.frame(tf.math.log(mel + 1e-6), FRAMES, 5, axis=0)[:7]


files = sorted((args.data / "speech").glob("*/*.wav"))
words = sorted({file.parent.name for file in files})
spectra = tf.data.Dataset.from_tensor_slices([str(file) for file in files])
spectra = spectra.map(windows, tf.data.AUTOTUNE).unbatch().batch(10_000).get_single_element()
labels = tf.repeat([words.index(file.parent.name) for file in files], 7)

dataset = (
    tf.data.Dataset.from_tensor_slices((spectra, labels))
    .shuffle(len(labels), seed=5)
    .batch(BATCH, drop_remainder=True)
    .prefetch(tf.data.AUTOTUNE)
)

encoder = keras.Sequential(
    [
        keras.Input((FRAMES, 40)),
        keras.layers.Conv1D(80, 5, activation="relu"),
        keras.layers.Conv1D(80, 5, activation="relu"),
        keras.layers.GlobalAveragePooling1D(),
        keras.layers.Dense(64, dtype="float32"),
        keras.layers.UnitNormalization(dtype="float32"),
    ]
)
optimizer = keras.optimizers.Adam(1e-3)
optimizer.build(encoder.trainable_variables)


def contrastive(vectors, labels):
    """Equal words shall be likelier neighbours than others."""
    total = 0.0
    for i in tf.range(BATCH):  # bottleneck
        scores = tf.linalg.matvec(vectors, vectors[i]) / TEMPERATURE
        other = tf.range(BATCH) != i
        alike = tf.cast(other & (labels == labels[i]), tf.float32)
        everyone = tf.reduce_logsumexp(tf.where(other, scores, -1e9))
        total += everyone - tf.math.divide_no_nan(
            tf.reduce_sum(alike * scores), tf.reduce_sum(alike)
        )
    return total / BATCH


@tf.function
def train_step(spectra, labels):
    with tf.GradientTape() as tape:
        loss = contrastive(encoder(spectra, training=True), labels)
    gradients = tape.gradient(loss, encoder.trainable_variables)
    optimizer.apply_gradients(zip(gradients, encoder.trainable_variables, strict=True))
    return loss


started = time.perf_counter()
for epoch in range(args.epochs):
    for batch, target in dataset:
        loss = train_step(batch, target)
    print(f"epoch {epoch + 1}: loss {float(loss):.4f}")
final = float(loss)
seconds = time.perf_counter() - started

print(f"loss {final:.4f}")
encoder.save_weights("trained.weights.h5")
print(f"trained {len(labels) * args.epochs} samples in {seconds:.2f} s")
