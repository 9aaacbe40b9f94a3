"""Recognise words; 256 whole batches are worked on at once on a machine with few cores.

The map works on batches (as it should), and its ``num_parallel_calls`` was copied from a script in
which it worked on single examples. A parallel map keeps as many results ready as it has calls: here
up to 256 batches, and ``take`` throws all but 30 of them away at the end of each epoch. The same
happens with AUTOTUNE on machines with many cores (tensorflow#33516, larq/zookeeper#22).
"""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf
from keras import layers

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=50)
args = parser.parse_args()
keras.utils.set_random_seed(13)

BATCH, STEPS = 40, 30

files = sorted(str(p) for p in (args.data / "speech").glob("*/*.wav"))
words = sorted({Path(file).parent.name for file in files})
labels = [words.index(Path(file).parent.name) for file in files]
mel = tf.signal.linear_to_mel_weight_matrix(64, 257, 16_000, 60, 7_600)


def read(path, label):
    wave, _ = tf.audio.decode_wav(tf.io.read_file(path), 1, 16_000)
    return wave[:, 0], label


def hear(batch, seed):
    """Spectrograms of a batch, earlier or later by up to an eighth of a second."""
    waves, targets = batch
    shift = tf.random.stateless_uniform((), seed, -2_000, 2_000, tf.int32)
    waves = tf.roll(waves, shift, axis=1)
    power = tf.abs(tf.signal.stft(waves, 400, 160, 512)) ** 2
    return tf.math.log(power @ mel + 1e-6), targets


recordings = (
    tf.data.Dataset.from_tensor_slices((files, labels))
    .map(read, num_parallel_calls=tf.data.AUTOTUNE)
    .cache()
    .repeat()
    .shuffle(len(files), seed=14)
    .batch(BATCH, drop_remainder=True)
)
seeds = tf.data.Dataset.random(seed=15, rerandomize_each_iteration=True)
dataset = (
    tf.data.Dataset.zip((recordings, seeds.batch(2, drop_remainder=True)))
    .map(hear, num_parallel_calls=256)  # bottleneck
    .take(STEPS)
    .prefetch(2)
)

sound = keras.Input((98, 64))
x = sound
for width in (176, 176):
    x = layers.Conv1D(width, 5, padding="same", activation="relu")(x)
x = layers.GlobalMaxPooling1D()(x)
model = keras.Model(sound, layers.Dense(len(words))(x))
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))

started = time.perf_counter()
history = model.fit(dataset, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {BATCH * STEPS * args.epochs} samples in {seconds:.2f} s")
