"""Classify photographs and average the weights; the average is traced anew in every step.

The decay of the moving average rises with the steps, as in TensorFlow's old
``ExponentialMovingAverage(num_updates=...)``. It is computed as a Python number and handed to a
``tf.function``: a Python number is part of the signature, so every new value is a new trace. The
guide to ``tf.function`` warns of it, and its warning about retracing names three possible reasons
(TensorFlow issue 34025 is one of many that ask which of them it was).
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
keras.utils.set_random_seed(1)

# 480 photographs of 96x96 are 13 MB: decoded once, kept as bytes.
photos = keras.utils.image_dataset_from_directory(
    args.data / "photos", image_size=(96, 96), batch_size=None, shuffle=False, verbose=False
)
images, labels = photos.batch(1_000).get_single_element()
images, labels = tf.cast(images, "uint8").numpy(), labels.numpy()


class WeightAverage(keras.callbacks.Callback):
    """Leaves the moving average of the weights in the model."""

    def on_train_begin(self, logs=None):
        self.weights = self.model.trainable_weights
        self.averages = [tf.Variable(w.value) for w in self.weights]
        self.steps = 0

    def on_train_batch_end(self, batch, logs=None):
        self.steps += 1
        decay = min(0.999, (1 + self.steps) / (10 + self.steps))
        self.update(decay)  # bottleneck

    @tf.function  # bottleneck
    def update(self, decay):
        for average, weight in zip(self.averages, self.weights, strict=True):
            average.assign_sub((1 - decay) * (average - weight.value))

    def on_train_end(self, logs=None):
        for average, weight in zip(self.averages, self.weights, strict=True):
            weight.assign(average)


model = keras.Sequential([keras.Input((96, 96, 3)), layers.Rescaling(1 / 255)])
for filters in (16, 32, 64):
    model.add(layers.Conv2D(filters, 3, strides=2, padding="same", use_bias=False))
    model.add(layers.BatchNormalization())
    model.add(layers.ReLU())
model.add(layers.GlobalAveragePooling2D())
model.add(layers.Dense(10))
model.compile(
    keras.optimizers.SGD(0.05, momentum=0.9),
    keras.losses.SparseCategoricalCrossentropy(from_logits=True),
)

started = time.perf_counter()
history = model.fit(
    images, labels, batch_size=24, epochs=args.epochs, verbose=2, callbacks=[WeightAverage()]
)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(images) * args.epochs} samples in {seconds:.2f} s")
