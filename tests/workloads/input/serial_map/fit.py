"""Classify photographs after random crops; every file is decoded on one thread.

The options switch off TensorFlow's own parallelising of bare maps, as scripts do that were made
reproducible by turning off whatever looked like reordering, and ``map`` never says
``num_parallel_calls``: one core decodes, the others wait. The performance guide of tf.data lists
it first; of the fixes that a checker of public projects sent out, most were this one.
"""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=40)
args = parser.parse_args()
keras.utils.set_random_seed(0)

paths = sorted(str(p) for p in (args.data / "photos").glob("*/*.jpg"))
classes = sorted(p.name for p in (args.data / "photos").iterdir())
labels = [classes.index(Path(p).parent.name) for p in paths]


def load(example, seed):
    """Decode another window in every epoch, as a phone might have sent it."""
    path, label = example
    data = tf.io.read_file(path)
    begin, size, _ = tf.image.stateless_sample_distorted_bounding_box(
        tf.io.extract_jpeg_shape(data),
        tf.zeros((1, 0, 4)),
        seed,
        area_range=(0.4, 1.0),
        use_image_if_no_bounding_boxes=True,
    )
    window = tf.concat([begin[:2], size[:2]], 0)
    image = tf.image.decode_and_crop_jpeg(data, window, channels=3)
    image = tf.image.stateless_random_jpeg_quality(image, 30, 90, seed)
    image = tf.image.resize(image, (96, 96)) / 255.0
    image = tf.image.stateless_random_hue(image, 0.05, seed)
    image = tf.image.stateless_random_saturation(image, 0.7, 1.4, seed)
    return tf.image.stateless_random_contrast(image, 0.7, 1.4, seed), label


options = tf.data.Options()
options.experimental_optimization.map_parallelization = False
files = tf.data.Dataset.from_tensor_slices((paths, labels)).shuffle(len(paths), seed=1)
seeds = tf.data.Dataset.random(seed=2, rerandomize_each_iteration=True).batch(2)
dataset = (
    tf.data.Dataset.zip(files, seeds)
    .map(load)  # bottleneck
    .batch(32)
    .prefetch(tf.data.AUTOTUNE)
    .with_options(options)
)

model = keras.Sequential(
    [
        keras.Input((96, 96, 3)),
        keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
        keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
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
