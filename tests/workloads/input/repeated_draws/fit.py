"""Classify photographs, mixed once, in batches that are augmented as a whole.

The names are shuffled before all else, and the order is kept, as people do who part them later. So
the same photographs make a batch in every epoch; what shall differ are window and flips. With
``set_random_seed`` the ops that draw them have a seed and begin again with each pass over the
dataset: each photograph is cut and mirrored in every epoch as in the first. Questions why
``tf.data`` augments alike in each epoch are asked often, and answered with ``cache``, mostly.
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
keras.utils.set_random_seed(10)

paths = sorted(str(p) for p in (args.data / "photos").glob("*/*.jpg"))
classes = sorted(p.name for p in (args.data / "photos").iterdir())
labels = [classes.index(Path(p).parent.name) for p in paths]


def decode(path, label):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.cast(tf.image.resize(image, (112, 112)), tf.uint8), label


def augment(images, labels):
    """Move the window of the batch, and mirror half of its photographs."""
    y, x = tf.unstack(tf.random.uniform((2,), 0, 17, tf.int32))
    images = images[:, y : y + 96, x : x + 96]
    mirrored = tf.random.uniform((tf.shape(images)[0], 1, 1, 1)) < 0.5
    return tf.where(mirrored, images[:, :, ::-1], images), labels


dataset = (
    tf.data.Dataset.from_tensor_slices((paths, labels))
    .shuffle(len(paths), seed=9, reshuffle_each_iteration=False)
    .map(decode, num_parallel_calls=tf.data.AUTOTUNE)
    .cache()
    .batch(32)
    .map(augment)  # bottleneck
    .prefetch(tf.data.AUTOTUNE)
)

model = keras.Sequential(
    [
        keras.Input((96, 96, 3), dtype="uint8"),
        keras.layers.Rescaling(1 / 255),
        keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
        keras.layers.Conv2D(64, 3, activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Conv2D(64, 3, activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(10),
    ]
)
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))

started = time.perf_counter()
history = model.fit(dataset, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(paths) * args.epochs} samples in {seconds:.2f} s")
