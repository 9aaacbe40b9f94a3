"""Recognise spoken words; the cache stands after ``repeat`` and is never read again.

``repeat()`` makes one endless dataset of all epochs, so the cache behind it never comes to its end:
it keeps every element of every epoch and gives none back. The work is done anew each epoch and the
memory grows. People swap the two lines as both seem to say "again"; the documentation of ``cache``
only says that the first pass has to be complete.
"""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf

RATE = 16_000

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=60)
args = parser.parse_args()
keras.utils.set_random_seed(151)

words = sorted(p.name for p in (args.data / "speech").iterdir())
paths = sorted(str(p) for p in (args.data / "speech").glob("*/*.wav"))
targets = [words.index(Path(p).parent.name) for p in paths]
mel = tf.signal.linear_to_mel_weight_matrix(80, 513, RATE, 60.0, 7600.0)


def features(path, target):
    """Log-mel spectrum and its first two differences in time."""
    sound, _ = tf.audio.decode_wav(tf.io.read_file(path), desired_samples=RATE)
    spectrum = tf.abs(tf.signal.stft(tf.squeeze(sound, -1), 1_024, 60))
    bands = tf.math.log(spectrum @ mel + 1e-5)
    faster = bands[2:] - bands[:-2]
    return tf.concat([bands[2:-2], faster[1:-1], faster[2:] - faster[:-2]], 1), target


dataset = (
    tf.data.Dataset.from_tensor_slices((paths, targets))
    .map(features, num_parallel_calls=tf.data.AUTOTUNE)
    .repeat()
    .cache()  # bottleneck
    .shuffle(len(paths), seed=152)
    .batch(20)
    .prefetch(tf.data.AUTOTUNE)
)

model = keras.Sequential(
    [
        keras.Input((246, 240)),
        keras.layers.Conv1D(64, 7, strides=3, activation="relu"),
        keras.layers.Conv1D(64, 5, strides=2, activation="relu"),
        keras.layers.GlobalMaxPooling1D(),
        keras.layers.Dense(len(words)),
    ]
)
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))

started = time.perf_counter()
history = model.fit(dataset, epochs=args.epochs, steps_per_epoch=len(paths) // 20, verbose=2)
seconds = time.perf_counter() - started

print(f"loss {history.history['loss'][-1]:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(paths) * args.epochs} samples in {seconds:.2f} s")
