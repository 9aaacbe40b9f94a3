"""Classify photographs; the random crops and flips are drawn once and then kept for ever.

The cache stands after the augmentation, so that "all the slow work is done once": every epoch after
the first repeats the same 480 crops. TensorFlow's own segmentation tutorial had this mistake
(tensorflow#47755). It is a matter of correctness: the training is fast, but nothing is augmented.
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
keras.utils.set_random_seed(0)

paths = sorted(str(p) for p in (args.data / "photos").glob("*/*.jpg"))
classes = sorted(p.name for p in (args.data / "photos").iterdir())
labels = [classes.index(Path(p).parent.name) for p in paths]


def decode(path, label):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.cast(tf.image.resize(image, (112, 112)), tf.uint8), label


def augment(example, seed):
    image, label = example
    image = tf.image.stateless_random_crop(image, (96, 96, 3), seed)
    return tf.image.stateless_random_flip_left_right(image, seed + 1), label


examples = tf.data.Dataset.from_tensor_slices((paths, labels)).map(
    decode, num_parallel_calls=tf.data.AUTOTUNE
)
# A pair of seeds for each photograph, new ones in every epoch.
seeds = tf.data.Dataset.random(seed=7, rerandomize_each_iteration=True)
dataset = (
    tf.data.Dataset.zip((examples, seeds.batch(2, drop_remainder=True)))
    .map(augment, num_parallel_calls=tf.data.AUTOTUNE)
    .cache()  # bottleneck
    .shuffle(len(paths), seed=1)
    .batch(32)
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
