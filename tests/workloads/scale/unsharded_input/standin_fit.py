"""Recognise spoken words on two devices; each half of a batch is picked from all spectrograms.

The batch is put together from one part per replica, so that each device keeps to its own speakers.
The part is picked by number when the spectrogram is computed already: each pipeline computes
all of them and drops what belongs to the other. It is the late ``shard`` that the page of
``tf.data.Dataset.shard`` warns of, written by hand. Every recording is shifted at random, so no
cache can help. Two logical CPUs stand in for two GPUs (or two hosts, each of which would read
everything).
"""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf
from keras import layers

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=60)
args = parser.parse_args()
keras.utils.set_random_seed(23)

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
replicas = strategy.num_replicas_in_sync

files = sorted((args.data / "speech").glob("*/*.wav"))
words = sorted({file.parent.name for file in files})
labels = [words.index(file.parent.name) for file in files]
mel = tf.signal.linear_to_mel_weight_matrix(64, 513, 16_000, 60.0, 7600.0)


def spectrogram(path, label, seed):
    sound = tf.audio.decode_wav(tf.io.read_file(path), 1, 16_000)[0][:, 0]
    shift = tf.random.stateless_uniform((), seed, -1600, 1600, tf.int32)
    frames = tf.abs(tf.signal.stft(tf.roll(sound, shift, 0), 1024, 32))
    return tf.math.log1p(tf.nn.avg_pool1d([frames @ mel], 4, 4, "VALID")[0]), label


def part(replica):
    seeds = tf.data.Dataset.random(seed=2, rerandomize_each_iteration=True).batch(2)
    recordings = tf.data.Dataset.from_tensor_slices(([str(file) for file in files], labels))
    recordings = recordings.shuffle(len(files), seed=1)
    return (
        tf.data.Dataset.zip(recordings, seeds)
        .map(lambda recording, seed: (*recording, seed))
        .map(spectrogram, num_parallel_calls=tf.data.AUTOTUNE)
        .enumerate()
        .filter(lambda number, _: number % replicas == replica)  # bottleneck
        .map(lambda _, example: example)
        .batch(20, drop_remainder=True)
    )


def join(*parts):
    return tuple(tf.concat(halves, axis=0) for halves in zip(*parts, strict=True))


dataset = tf.data.Dataset.zip(*(part(replica) for replica in range(replicas)))
dataset = dataset.map(join).prefetch(tf.data.AUTOTUNE)

with strategy.scope():
    model = keras.Sequential(
        [
            keras.Input((None, 64)),
            layers.Conv1D(64, 5, strides=2, activation="relu"),
            layers.Conv1D(64, 5, strides=2, activation="relu"),
            layers.GlobalMaxPooling1D(),
            layers.Dense(len(words)),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(1e-3), loss)

started = time.perf_counter()
history = model.fit(dataset, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(files) * args.epochs} samples in {seconds:.2f} s")
