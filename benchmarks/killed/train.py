"""A quick training that starts a process, overwrites a file, and saves what it trained."""

import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
if os.fork() == 0:  # as loaders of data do
    import time

    time.sleep(600)
    os._exit(0)
with Path("log.txt").open("w") as log:
    log.write("begun\n")
x = np.random.default_rng(0).random((2048, 64)).astype("float32")


def costly(row: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """A map that takes longer than the step."""
    matrix = tf.tensordot(row, row, 0)
    for _ in range(12):
        matrix = tf.linalg.matmul(matrix, matrix) / 64.0
    return matrix[0], row[:1]


dataset = tf.data.Dataset.from_tensor_slices(x).map(costly).batch(32)
model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(64), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.save_weights("first.weights.h5")
model.load_weights("first.weights.h5")
best = keras.callbacks.ModelCheckpoint("best.keras", monitor="loss")
model.fit(dataset, epochs=6, verbose=0, callbacks=[best])
model.save("best.keras")
with Path("log.txt").open("a") as log:
    log.write("trained\n")
