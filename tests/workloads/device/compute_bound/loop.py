"""Recognise spoken words with an LSTM over every frame of the spectrum.

The step is the recurrence and nothing else: ninety-nine time steps, one after the other, with the
kernels as good as TensorFlow has them on a CPU. Speech people shorten the sequence instead: they
stack neighbouring frames, as neighbours say almost the same (Sak et al. 2015, "Fast and accurate
recurrent neural network acoustic models").
"""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=80)
args = parser.parse_args()
keras.utils.set_random_seed(15)

FRAMES, BANDS, BATCH = 99, 40, 20

files = sorted((args.data / "speech").glob("*/*.wav"))
words = sorted({file.parent.name for file in files})


def spectrum(file):
    sound, _ = tf.audio.decode_wav(tf.io.read_file(file), 1, 16_000)
    power = tf.abs(tf.signal.stft(tf.pad(sound[:, 0], [(0, 160)]), 480, 160, 512))[:FRAMES]
    return tf.math.log(power @ tf.signal.linear_to_mel_weight_matrix(BANDS, 257, 16_000) + 1e-5)


dataset = (
    tf.data.Dataset.from_tensor_slices(
        ([str(file) for file in files], [words.index(file.parent.name) for file in files])
    )
    .map(lambda file, word: (spectrum(file), word), num_parallel_calls=tf.data.AUTOTUNE)
    .cache()
    .shuffle(len(files), seed=15)
    .batch(BATCH, drop_remainder=True)
    .prefetch(tf.data.AUTOTUNE)
)


class Listener(keras.Model):
    def __init__(self):
        super().__init__()
        self.norm = keras.layers.Rescaling(0.2)
        self.recur = keras.layers.LSTM(128)  # bottleneck
        self.head = keras.layers.Dense(len(words))

    def call(self, spectra):
        return self.head(self.recur(self.norm(spectra)))


model = Listener()
model(tf.zeros((1, FRAMES, BANDS)))
optimizer = keras.optimizers.Adam(2e-3)
optimizer.build(model.trainable_variables)
loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def train_step(spectra, target):
    with tf.GradientTape() as tape:
        loss = loss_of(target, model(spectra, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


start = time.perf_counter()
for epoch in range(args.epochs):
    for spectra, target in dataset:
        loss = train_step(spectra, target)
    print(f"epoch {epoch + 1}: loss {float(loss):.4f}")
final = float(loss)
seconds = time.perf_counter() - start

print(f"loss {final:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(files) * args.epochs} samples in {seconds:.2f} s")
