"""Distil a large recogniser of spoken words into a small one, in a loop that knows one device.

The loop was made ready for several devices and tried on one, with ``OneDeviceStrategy`` as the
guide to ``tf.distribute`` proposes for tests; the strategy was never changed back when the job
moved to the larger machine. Two logical CPUs stand in for two GPUs, one thread each, so that one of
them is half of the machine. (The teacher's weights are as initialised, where a user would load
some; the recordings are shifted at random, so that what it says cannot be kept.)
"""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf
from keras import layers

BATCH = 40  # over all devices

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=60)
args = parser.parse_args()
keras.utils.set_random_seed(25)
keras.mixed_precision.set_global_policy("mixed_bfloat16")

tf.config.threading.set_intra_op_parallelism_threads(1)  # a device has one core
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.OneDeviceStrategy("/cpu:0")  # bottleneck

files = sorted(str(file) for file in (args.data / "speech").glob("*/*.wav"))


def read(path):
    sound, _ = tf.audio.decode_wav(tf.io.read_file(path), 1, 16_000)
    return sound


recordings = tf.data.Dataset.from_tensor_slices(files)
recordings = recordings.map(read, num_parallel_calls=tf.data.AUTOTUNE).cache()
recordings = recordings.shuffle(len(files), seed=1).batch(BATCH)
shifts = tf.data.Dataset.random(seed=2, rerandomize_each_iteration=True)
dataset = tf.data.Dataset.zip(recordings, shifts).map(
    lambda sound, shift: tf.roll(sound, shift % 16_000, axis=1),
    num_parallel_calls=tf.data.AUTOTUNE,
)
batches = strategy.experimental_distribute_dataset(dataset.prefetch(tf.data.AUTOTUNE))


def recogniser(*filters):
    model = keras.Sequential([keras.Input((16_000, 1)), layers.Conv1D(filters[0], 64, strides=8)])
    for count in filters[1:]:
        model.add(layers.Conv1D(count, 9, strides=2, activation="relu"))
    model.add(layers.GlobalAveragePooling1D())
    model.add(layers.Dense(6, dtype="float32"))
    return model


with strategy.scope():
    teacher = recogniser(128, 192, 256, 256)
    model = recogniser(16, 24, 32)
    optimizer = keras.optimizers.RMSprop(1e-3)
    optimizer.build(model.trainable_variables)


def replica_step(sound):
    wanted = tf.nn.softmax(teacher(sound, training=False))
    with tf.GradientTape() as tape:
        losses = keras.losses.kl_divergence(wanted, tf.nn.softmax(model(sound, training=True)))
        loss = tf.reduce_sum(losses) / BATCH
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


@tf.function
def train_step(sound):
    return strategy.reduce("SUM", strategy.run(replica_step, args=(sound,)), axis=None)


started = time.perf_counter()
for epoch in range(args.epochs):
    for sound in batches:
        loss = train_step(sound)
    print(f"epoch {epoch + 1}: loss {loss:.4f}")
loss = float(loss)
seconds = time.perf_counter() - started

print(f"loss {loss:.6f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(files) * args.epochs} samples in {seconds:.2f} s")
