"""Learn what usual houses look like; the codes of all rows seen pile up inside the step.

An autoencoder for finding odd rows: the codes of the last pass over the table are wanted after the
training, as the normal state that new rows are compared with. The step appends them to a bank, and
appending to a tensor means copying all of it: each step is slower than the one before it, without
end. Memory banks for contrastive learning are often written like this at first.
"""

import argparse
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from keras import layers

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=10)
args = parser.parse_args()
keras.utils.set_random_seed(16)

CODE = 1_024

table = np.loadtxt(args.data / "houses.csv", delimiter=",", skiprows=1, dtype=np.float32)
table = (table - table.mean(axis=0)) / table.std(axis=0)


class Autoencoder(keras.Model):
    def __init__(self):
        super().__init__()
        self.encoder = keras.Sequential(
            [layers.Dense(256, "relu"), layers.Dense(256, "relu"), layers.Dense(CODE, "tanh")]
        )
        self.decoder = keras.Sequential([layers.Dense(256, "relu"), layers.Dense(table.shape[1])])
        self.bank = tf.Variable(tf.zeros((0, CODE)), shape=(None, CODE), trainable=False)

    def call(self, rows):
        return self.decoder(self.encoder(rows))

    def train_step(self, data):
        rows, _, _ = keras.utils.unpack_x_y_sample_weight(data)
        with tf.GradientTape() as tape:
            codes = self.encoder(rows, training=True)
            loss = tf.reduce_mean((self.decoder(codes, training=True) - rows) ** 2)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        self.bank.assign(tf.concat([self.bank, codes], axis=0))  # bottleneck
        return {"loss": loss}


model = Autoencoder()
model.build((None, table.shape[1]))
model.compile(optimizer=keras.optimizers.SGD(0.05, momentum=0.9))

started = time.perf_counter()
history = model.fit(table, batch_size=250, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

codes = model.bank[-len(table) :].numpy()
print(f"loss {history.history['loss'][-1]:.4f}, spread of the codes {codes.std(axis=0).mean():.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(table) * args.epochs} samples in {seconds:.2f} s")
