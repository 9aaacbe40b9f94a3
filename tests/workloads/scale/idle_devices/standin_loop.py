"""Recognise spoken words in a distributed loop whose strategy knows one device.

The loop was made ready for several devices and tried on one, with ``OneDeviceStrategy`` as the
guide to ``tf.distribute`` proposes for tests; the strategy was never changed back when the job
moved to the larger machine. Two logical CPUs stand in for two GPUs, one thread each, so that one of
them is half of the machine.
"""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf
from keras import layers

BATCH = 60  # over all devices

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=60)
args = parser.parse_args()
keras.utils.set_random_seed(25)

tf.config.threading.set_intra_op_parallelism_threads(1)  # a device has one core
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.OneDeviceStrategy("/cpu:0")  # brake

files = sorted((args.data / "speech").glob("*/*.wav"))
words = sorted({file.parent.name for file in files})
labels = [words.index(file.parent.name) for file in files]


def read(path, label):
    sound, _ = tf.audio.decode_wav(tf.io.read_file(path), 1, 16_000)
    return tf.reshape(sound, (125, 128)), label


dataset = (
    tf.data.Dataset.from_tensor_slices(([str(file) for file in files], labels))
    .map(read, num_parallel_calls=tf.data.AUTOTUNE)
    .cache()
    .shuffle(len(files), seed=1)
    .batch(BATCH)
    .prefetch(tf.data.AUTOTUNE)
)
batches = strategy.experimental_distribute_dataset(dataset)

with strategy.scope():
    model = keras.Sequential([keras.Input((125, 128)), layers.LSTM(192), layers.Dense(len(words))])
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum")
    optimizer = keras.optimizers.RMSprop(1e-3)
    optimizer.build(model.trainable_variables)


def replica_step(frames, label):
    with tf.GradientTape() as tape:
        loss = loss_of(label, model(frames, training=True)) / BATCH
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


@tf.function
def train_step(frames, label):
    return strategy.reduce("SUM", strategy.run(replica_step, args=(frames, label)), axis=None)


started = time.perf_counter()
for _ in range(args.epochs):
    for frames, label in batches:
        loss = train_step(frames, label)
loss = float(loss)
seconds = time.perf_counter() - started

print(f"loss {loss:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(files) * args.epochs} samples in {seconds:.2f} s")
