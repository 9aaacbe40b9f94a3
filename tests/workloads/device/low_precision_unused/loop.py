"""Classify photographs with a plain convolutional network in a loop of one's own, in float32.

The convolutions have 64 to 128 channels, enough for the processor's bfloat16 units, which stay
unused because nobody set a policy. Own loops are slower to get mixed precision than ``fit``: with
float16 they need loss scaling by hand, which bfloat16 does not
(https://www.tensorflow.org/guide/mixed_precision).
"""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=50)
args = parser.parse_args()
keras.utils.set_random_seed(17)

SIDE, BATCH = 64, 32

photos, labels = keras.utils.image_dataset_from_directory(
    args.data / "photos", image_size=(SIDE, SIDE), batch_size=None, shuffle=False, verbose=False
).batch(10_000).get_single_element()  # fmt: skip
photos = tf.cast(photos, tf.uint8)

dataset = (
    tf.data.Dataset.from_tensor_slices((photos, labels))
    .shuffle(len(photos), seed=17)
    .batch(BATCH, drop_remainder=True)
    .prefetch(tf.data.AUTOTUNE)
)


class PhotoNet(keras.Model):
    def __init__(self, classes):
        super().__init__()
        self.scale = keras.layers.Rescaling(1 / 127.5, offset=-1)
        self.stem = keras.layers.Conv2D(64, 5, strides=2, activation="relu")  # bottleneck
        self.middle = keras.layers.Conv2D(128, 3, activation="relu")  # bottleneck
        self.top = keras.layers.Conv2D(128, 3, strides=2, activation="relu")  # bottleneck
        self.pool = keras.layers.GlobalAveragePooling2D()
        self.head = keras.layers.Dense(classes)

    def call(self, images):
        return self.head(self.pool(self.top(self.middle(self.stem(self.scale(images))))))


model = PhotoNet(classes=10)
model(photos[:1])
optimizer = keras.optimizers.Adam(5e-4)
optimizer.build(model.trainable_variables)
loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def train_step(images, labels):
    with tf.GradientTape() as tape:
        loss = loss_of(labels, model(images, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


started = time.perf_counter()
for epoch in range(args.epochs):
    for images, target in dataset:
        loss = train_step(images, target)
    print(f"epoch {epoch + 1}: loss {float(loss):.4f}")
final = float(loss)
seconds = time.perf_counter() - started

print(f"loss {final:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(photos) // BATCH * BATCH * args.epochs} samples in {seconds:.2f} s")
