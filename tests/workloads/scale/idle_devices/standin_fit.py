"""Train a classifier on the features of a frozen network, on one of two devices.

TensorFlow places everything on the first device unless a strategy says otherwise; a second GPU is
listed, holds memory, and idles. Two logical CPUs stand in for two GPUs, one thread each, so that
one of them is half of the machine. Nothing is wrong with the script but what it leaves out. (The
network's weights are as initialised, where a user would load some; the crops are random, so that
features cannot be kept.)
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
keras.utils.set_random_seed(24)
keras.mixed_precision.set_global_policy("mixed_bfloat16")

tf.config.threading.set_intra_op_parallelism_threads(1)  # a device has one core
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)

paths = sorted(str(p) for p in (args.data / "photos").glob("*/*.jpg"))
classes = sorted(p.name for p in (args.data / "photos").iterdir())
labels = [classes.index(Path(p).parent.name) for p in paths]


def load(path, label):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.cast(tf.image.resize(image, (90, 90)), tf.uint8), label


def crop(photos, seed):
    images, labels = photos
    return tf.image.stateless_random_crop(images, (tf.shape(images)[0], 80, 80, 3), seed), labels


photos = tf.data.Dataset.from_tensor_slices((paths, labels))
photos = photos.map(load, num_parallel_calls=tf.data.AUTOTUNE).cache()
photos = photos.shuffle(len(paths), seed=1).batch(40)
seeds = tf.data.Dataset.random(seed=2, rerandomize_each_iteration=True).batch(2)
dataset = (
    tf.data.Dataset.zip(photos, seeds)
    .map(crop, num_parallel_calls=tf.data.AUTOTUNE)
    .repeat()
    .prefetch(tf.data.AUTOTUNE)
)


def build():
    base = keras.Sequential([keras.Input((80, 80, 3), dtype="uint8"), layers.Rescaling(1 / 255)])
    for filters, strides in ((64, 1), (128, 2), (256, 2), (256, 2)):
        base.add(layers.Conv2D(filters, 3, strides, padding="same", activation="relu"))
    base.add(layers.GlobalAveragePooling2D())
    base.trainable = False
    model = keras.Sequential([base, layers.Dense(len(classes), dtype="float32")])
    model.compile(
        optimizer=keras.optimizers.Adam(1e-2),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    return model


model = build()  # bottleneck

started = time.perf_counter()
history = model.fit(dataset, steps_per_epoch=12, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(paths) * args.epochs} samples in {seconds:.2f} s")
