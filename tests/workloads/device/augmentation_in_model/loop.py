"""Tell good reviews from bad ones by their letters; the model itself cuts up the text.

Every step takes an excerpt of each review, anew at random, and its first layer splits that into
letters, joins them to n-grams and counts those: string operations, which run on one core, inside
the compiled step. Preprocessing in the model is convenient for serving; the guide to
preprocessing layers warns that text belongs into tf.data for training
(https://github.com/keras-team/keras-io/pull/913).
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
keras.utils.set_random_seed(11)

LETTERS, GRAMS, BATCH = 100, 3_000, 200
EXCERPTS = 3  # of every review in an epoch
STEPS = 90  # in an epoch

rows = [line.split("\t") for line in (args.data / "reviews.tsv").read_text().splitlines()]
labels = tf.constant([int(label) for label, _ in rows])
texts = tf.constant([text for _, text in rows])


vectorize = keras.layers.TextVectorization(
    max_tokens=GRAMS,
    split="character",
    ngrams=3,
    output_mode="count",
    pad_to_max_tokens=True,
)
vectorize.adapt(texts[:500])


def grams_of(step, texts):
    """How often each n-gram of letters occurs in a random excerpt of each text."""
    spare = tf.maximum(tf.strings.length(texts) - LETTERS, 0)
    draw = tf.random.stateless_uniform(tf.shape(texts), (11, step))
    begin = tf.cast(draw * tf.cast(spare + 1, tf.float32), tf.int32)
    return vectorize(tf.strings.substr(texts, begin, tf.fill(tf.shape(texts), LETTERS)))


dataset = (
    tf.data.Dataset.from_tensor_slices((texts, labels))
    .shuffle(len(rows), seed=11)
    .batch(BATCH)
    .repeat(args.epochs * EXCERPTS)
    .enumerate()
    .prefetch(tf.data.AUTOTUNE)
)


model = keras.Sequential(
    [
        keras.Input((GRAMS,)),
        keras.layers.Dense(32, activation="relu"),
        keras.layers.Dense(1),
    ]
)
optimizer = keras.optimizers.Adam(1e-3)
optimizer.build(model.trainable_variables)
loss_of = keras.losses.BinaryCrossentropy(from_logits=True)


@tf.function
def train_step(step, texts, labels):
    grams = grams_of(step, texts)  # bottleneck
    with tf.GradientTape() as tape:
        loss = loss_of(labels[:, None], model(grams, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


started = time.perf_counter()
for number, (step, (batch, target)) in enumerate(dataset, 1):
    loss = train_step(step, batch, target)
    if number % STEPS == 0:
        print(f"epoch {number // STEPS}: loss {float(loss):.4f}")
final = float(loss)
seconds = time.perf_counter() - started

print(f"loss {final:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(rows) * EXCERPTS * args.epochs} samples in {seconds:.2f} s")
