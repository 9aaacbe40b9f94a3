"""Train on a folder of photos with a training loop of one's own instead of ``fit``.

python examples/custom_loop.py DIR
"""

import argparse
from pathlib import Path

import keras
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("directory", type=Path)
parser.add_argument("--epochs", type=int, default=5)
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--steps", type=int, help="stop each epoch after this many steps")
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


dataset = tf.data.Dataset.from_tensor_slices((paths, labels))
dataset = dataset.shuffle(len(paths)).map(load).batch(args.batch_size)
if args.steps:
    dataset = dataset.take(args.steps)

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
optimizer = keras.optimizers.Adam()
optimizer.build(model.trainable_variables)
loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def train_step(images, targets):
    with tf.GradientTape() as tape:
        loss = loss_of(targets, model(images, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


for epoch in range(args.epochs):
    mean_loss = keras.metrics.Mean()
    for images, targets in dataset:
        mean_loss.update_state(train_step(images, targets))
    print(f"epoch {epoch + 1}: loss {float(mean_loss.result()):.3f}", flush=True)
