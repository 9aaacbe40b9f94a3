"""Train a small convolutional network on a folder of photos, one sub-folder per class.

    python examples/photos.py DIR

The script is written as most people write their first one; it knows nothing of Uncork.
"""

import argparse
from pathlib import Path

import keras
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("directory", type=Path)
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--batch-size", type=int, default=32)
args = parser.parse_args()

classes = sorted(folder.name for folder in args.directory.iterdir() if folder.is_dir())
files = sorted(args.directory.glob("*/*.jpg"))
paths = [str(file) for file in files]
labels = [classes.index(file.parent.name) for file in files]


def load(path, label):
    image = tf.io.read_file(path)
    image = tf.io.decode_jpeg(image, channels=3)
    image = tf.image.resize(image, [128, 128], antialias=True)
    image = image / 255.0
    image = tf.image.random_flip_left_right(image)
    return image, label


data = tf.data.Dataset.from_tensor_slices((paths, labels))
data = data.shuffle(len(paths), seed=1, reshuffle_each_iteration=False)
held_out = len(paths) // 10
validation = data.take(held_out).map(load).batch(args.batch_size)
training = data.skip(held_out).shuffle(len(paths)).map(load).batch(args.batch_size)

model = keras.Sequential(
    [
        keras.Input((128, 128, 3)),
        keras.layers.Conv2D(8, 3, strides=2, activation="relu"),
        keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
        keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
        keras.layers.Conv2D(64, 3, strides=2, activation="relu"),
        keras.layers.Conv2D(128, 3, strides=2, activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(len(classes)),
    ]
)
model.compile(
    optimizer="adam",
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
history = model.fit(training, validation_data=validation, epochs=args.epochs, verbose=2)
print(f"accuracy on held-out photos: {history.history['val_accuracy'][-1]:.1%}")
