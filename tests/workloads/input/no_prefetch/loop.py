"""Estimate prices of houses from compressed tables, which are unpacked while the network waits.

One table for each month, read in their order, each once: prices of last year come before those of
this one. A gzip file can only be read from its start, by one thread: here by the one that asks for
a batch, and it asks when the step before is over. The numbers are parsed in the compiled step.
``prefetch`` is missing, and an option that was meant to make the pipeline easier to follow in a
profile also keeps TensorFlow from adding one. The first advice of the tf.data performance guide.
"""

import argparse
import gzip
import tempfile
import time
from pathlib import Path

import keras
import tensorflow as tf

COLUMNS = 25  # the last one is the price
BATCH, MONTHS = 500, 12
STEPS = MONTHS * 20_000 // BATCH  # in an epoch

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=10, help="years")
args = parser.parse_args()
keras.utils.set_random_seed(81)

scratch = tempfile.TemporaryDirectory()
_, rows = (args.data / "houses.csv").read_bytes().split(b"\n", 1)
rows = gzip.compress(rows, compresslevel=1)
tables = [f"{scratch.name}/{month:03}.csv.gz" for month in range(MONTHS * args.epochs)]
for table in tables:
    Path(table).write_bytes(rows)

options = tf.data.Options()
options.experimental_optimization.apply_default_optimizations = False
dataset = (
    tf.data.TextLineDataset(tables, compression_type="GZIP")
    .with_options(options)
    .shuffle(2_000, seed=82)
    .batch(BATCH)  # bottleneck
)

model = keras.Sequential(
    [
        keras.Input((COLUMNS - 1,)),
        keras.layers.Dense(32, activation="relu"),
        keras.layers.Dense(1),
    ]
)
optimizer = keras.optimizers.SGD(1e-3)


@tf.function
def train_step(lines):
    *features, prices = tf.io.decode_csv(lines, [0.0] * COLUMNS)
    with tf.GradientTape() as tape:
        guesses = model(tf.stack(features, -1), training=True)[:, 0]
        loss = tf.reduce_mean(tf.abs(guesses - prices))
    variables = model.trainable_variables
    optimizer.apply(tape.gradient(loss, variables), variables)
    return loss


started = time.perf_counter()
for step, lines in enumerate(dataset, 1):
    loss = train_step(lines)
    if step % STEPS == 0:
        print(f"epoch {step // STEPS}: loss {float(loss):.4f}")
seconds = time.perf_counter() - started

print(f"loss {float(loss):.6f}")
model.save_weights("trained.weights.h5")
print(f"trained {BATCH * STEPS * args.epochs} samples in {seconds:.2f} s")
