"""Recognise spoken words in sound that a recorder left as one small file every 20 ms.

A training example is 40 frames that follow each other, from a random one on, so each example opens
40 files of 640 bytes. Opening a file costs more than its bytes do, even if all lie in the system's
memory, as here; on a network drive it is far worse (tensorflow#20068: five to ten times as slow).
The random start comes first, so there is nothing that a cache could keep.
"""

import argparse
import tempfile
import time
from pathlib import Path

import keras
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=40)
args = parser.parse_args()
keras.utils.set_random_seed(5)

FRAME, FRAMES, TAKEN, PASSES = 320, 50, 40, 6

recordings = sorted((args.data / "speech").glob("*/*.wav"))
words = sorted({r.parent.name for r in recordings})
labels = [words.index(r.parent.name) for r in recordings]

# What the recorder wrote: frames of 320 samples of 16 bits.
scratch = tempfile.TemporaryDirectory()
folders = [str(Path(scratch.name) / f"{i:03d}") for i in range(len(recordings))]
for recording, folder in zip(recordings, folders, strict=True):
    Path(folder).mkdir()
    sound = recording.read_bytes()[44:]  # behind the heading of a WAV file
    for i in range(FRAMES):
        Path(folder, f"{i:02d}.pcm").write_bytes(sound[i * 2 * FRAME : (i + 1) * 2 * FRAME])


def excerpt(example, seed):
    folder, label = example
    start = tf.random.stateless_uniform((), seed, 0, FRAMES - TAKEN + 1, tf.int32)
    numbers = tf.strings.as_string(tf.range(start, start + TAKEN), width=2, fill="0")
    names = tf.strings.join([folder, "/", numbers, ".pcm"])
    frames = [tf.io.read_file(names[i]) for i in range(TAKEN)]  # bottleneck
    return tf.reshape(tf.io.decode_raw(frames, tf.int16), (TAKEN * FRAME, 1)), label


examples = tf.data.Dataset.from_tensor_slices((folders, labels))
seeds = tf.data.Dataset.random(seed=6, rerandomize_each_iteration=True)
examples = examples.shuffle(len(folders), seed=6).repeat(PASSES)
dataset = (
    tf.data.Dataset.zip((examples, seeds.batch(2, drop_remainder=True)))
    .map(excerpt, num_parallel_calls=tf.data.AUTOTUNE)
    .batch(60)
    .prefetch(tf.data.AUTOTUNE)
)


class Recogniser(keras.Model):
    def __init__(self):
        super().__init__()
        self.scale = keras.layers.Rescaling(1 / 32_768)
        self.ear = keras.layers.Conv1D(16, 160, strides=160, activation="relu")
        self.convs = [keras.layers.Conv1D(32, 3, 2, activation="relu") for _ in range(2)]
        self.answer = keras.layers.Dense(len(words))

    def call(self, sounds):
        x = self.ear(self.scale(sounds))
        for conv in self.convs:
            x = conv(x)
        return self.answer(tf.reduce_max(x, axis=1))


model = Recogniser()
model.build((None, TAKEN * FRAME, 1))
optimizer = keras.optimizers.Adam(1e-3)
loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def train_step(sounds, targets):
    with tf.GradientTape() as tape:
        loss = loss_of(targets, model(sounds))
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
print(f"trained {len(folders) * PASSES * args.epochs} samples in {seconds:.2f} s")
