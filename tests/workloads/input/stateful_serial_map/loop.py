"""Recognise spoken words in noise; every recording is disturbed and analysed on one thread.

``tf.random`` inside the map makes its function stateful, so TensorFlow does not run it in parallel
by itself, and the Fourier transforms that stand in the same function wait with it. The remedy, draw
a seed in a small serial map and do the work in a parallel one, is the maintainers' advice in
tensorflow#13932.
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
keras.utils.set_random_seed(21)

RATE = 16_000
STEPS = 30  # in an epoch
mel = tf.signal.linear_to_mel_weight_matrix(64, 513, RATE, 60.0, 7600.0)

words = sorted(p.name for p in (args.data / "speech").iterdir())
paths = sorted(str(p) for p in (args.data / "speech").glob("*/*.wav"))
targets = [words.index(Path(p).parent.name) for p in paths]


def read(path, target):
    sound, _ = tf.audio.decode_wav(tf.io.read_file(path), desired_samples=RATE)
    return tf.squeeze(sound, -1), target


def disturb(sound, target):
    sound = tf.roll(sound, tf.random.uniform((), -1600, 1600, tf.int32), axis=0)
    sound += tf.random.normal((RATE,)) * tf.random.uniform((), 0.0, 0.1)
    spectrum = tf.abs(tf.signal.stft(sound, 1_024, 40))
    return tf.math.log(tf.matmul(spectrum, mel) + 1e-5), target


dataset = (
    tf.data.Dataset.from_tensor_slices((paths, targets))
    .map(read, num_parallel_calls=tf.data.AUTOTUNE)
    .cache()
    .shuffle(len(paths), seed=22)
    .map(disturb)  # bottleneck
    .batch(20)
    .repeat(args.epochs)
    .prefetch(tf.data.AUTOTUNE)
)


class Listener(keras.Model):
    def __init__(self):
        super().__init__()
        self.convolutions = [
            keras.layers.Conv1D(96, 9, strides=4, activation="relu") for _ in range(2)
        ]
        self.pool = keras.layers.GlobalAveragePooling1D()
        self.head = keras.layers.Dense(len(words))

    def call(self, x):
        for convolution in self.convolutions:
            x = convolution(x)
        return self.head(self.pool(x))


model = Listener()
optimizer = keras.optimizers.RMSprop(5e-4)
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_fn(y, model(x, training=True))
    optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    return loss


started = time.perf_counter()
for step, (x, y) in enumerate(dataset, 1):
    loss = train_step(x, y)
    if step % STEPS == 0:
        print(f"epoch {step // STEPS}: loss {float(loss):.4f}")
seconds = time.perf_counter() - started

print(f"loss {float(loss):.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(paths) * args.epochs} samples in {seconds:.2f} s")
