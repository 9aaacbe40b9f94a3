"""Recognise spoken words in sound whose frames were packed into records, one per recording."""

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

# What the recorder wrote, put together: 50 frames of 320 samples of 16 bits in each record.
scratch = tempfile.TemporaryDirectory()
records = f"{scratch.name}/frames.tfrecord"
with tf.io.TFRecordWriter(records) as writer:
    for recording in recordings:
        writer.write(recording.read_bytes()[44:])  # behind the heading of a WAV file


def excerpt(example, seed):
    sound, label = example
    start = tf.random.stateless_uniform((), seed, 0, FRAMES - TAKEN + 1, tf.int32)
    frames = tf.strings.substr(sound, start * 2 * FRAME, TAKEN * 2 * FRAME)
    return tf.reshape(tf.io.decode_raw(frames, tf.int16), (TAKEN * FRAME, 1)), label


examples = tf.data.Dataset.from_tensor_slices(labels)
examples = tf.data.Dataset.zip((tf.data.TFRecordDataset(records), examples))
seeds = tf.data.Dataset.random(seed=6, rerandomize_each_iteration=True)
examples = examples.shuffle(len(labels), seed=6).repeat(PASSES)
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
print(f"trained {len(labels) * PASSES * args.epochs} samples in {seconds:.2f} s")
