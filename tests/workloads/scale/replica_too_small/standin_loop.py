"""Tell good from bad reviews by their words, in an own loop over two devices.

The author divides the batch by the number of replicas, and then so does
``experimental_distribute_dataset``, whose batches are global ones: each replica gets a quarter of
what was meant, and a step is mostly overhead. TensorFlow's guide to custom training with a strategy
multiplies instead (``GLOBAL_BATCH_SIZE``). Two logical CPUs stand in for two GPUs.
"""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf
from keras import layers

PER_REPLICA = 100

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=60)
args = parser.parse_args()
keras.utils.set_random_seed(21)

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
batch = PER_REPLICA // strategy.num_replicas_in_sync  # bottleneck

lines = [line.split("\t") for line in (args.data / "reviews.tsv").read_text().splitlines()]
texts = tf.constant([text for _, text in lines])
labels = tf.constant([[float(label)] for label, _ in lines])
vectorise = layers.TextVectorization(max_tokens=3000, output_mode="multi_hot")
vectorise.adapt(texts)

dataset = (
    tf.data.Dataset.from_tensor_slices((tf.cast(vectorise(texts), tf.float32), labels))
    .shuffle(len(lines), seed=1)
    .batch(batch)
    .prefetch(tf.data.AUTOTUNE)
)
batches = strategy.experimental_distribute_dataset(dataset)

with strategy.scope():
    model = keras.Sequential(
        [
            keras.Input((3000,)),
            layers.Dense(256, activation="relu"),
            layers.Dropout(0.5),
            layers.Dense(256, activation="relu"),
            layers.Dense(1),
        ]
    )
    loss_of = keras.losses.BinaryCrossentropy(from_logits=True, reduction="sum")
    optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
    optimizer.build(model.trainable_variables)


def replica_step(words, label):
    with tf.GradientTape() as tape:
        loss = loss_of(label, model(words, training=True)) / batch
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


@tf.function
def train_step(words, label):
    losses = strategy.run(replica_step, args=(words, label))
    return strategy.reduce("SUM", losses, axis=None)


started = time.perf_counter()
for epoch in range(args.epochs):
    for words, label in batches:
        loss = train_step(words, label)
    print(f"epoch {epoch + 1}: loss {loss:.4f}")
loss = float(loss)
seconds = time.perf_counter() - started

print(f"loss {loss:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(lines) * args.epochs} samples in {seconds:.2f} s")
