"""Classify photographs; the whole model is saved every second step.

A lost night of training made somebody write ``save_freq=2``. ``ModelCheckpoint`` writes weights,
optimizer and configuration into one archive while the training waits. TensorFlow 2 used to warn
that ``on_train_batch_end`` is slow, without the name of the callback (TensorFlow issue 37876);
Keras 3 says nothing.
"""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf
from keras import layers

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=50)
args = parser.parse_args()
keras.utils.set_random_seed(8)

# All photographs fit into memory: decode them once.
photos = keras.utils.image_dataset_from_directory(
    args.data / "photos", image_size=(64, 64), batch_size=None, shuffle=False, verbose=False
)
images, labels = photos.batch(1_000).get_single_element()
images, labels = tf.cast(images, "uint8").numpy(), labels.numpy()


def downsample(x, filters):
    x = layers.Conv2D(filters, 3, strides=2, padding="same", activation="relu")(x)
    return layers.Conv2D(filters, 3, padding="same", activation="relu")(x)


inputs = keras.Input((64, 64, 3), dtype="uint8")
x = layers.Rescaling(1 / 255)(inputs)
for filters in (16, 32, 64):
    x = downsample(x, filters)
x = layers.Dense(256, activation="relu")(layers.Flatten()(x))
model = keras.Model(inputs, layers.Dense(10)(x))
model.compile(
    optimizer=keras.optimizers.Adam(3e-4),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
)

save = keras.callbacks.ModelCheckpoint("last.keras", save_freq=2)  # bottleneck

started = time.perf_counter()
history = model.fit(images, labels, batch_size=16, epochs=args.epochs, callbacks=[save], verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(images) * args.epochs} samples in {seconds:.2f} s")
