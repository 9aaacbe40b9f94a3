"""Spoken words: decoded, noise added, turned into the logarithm of a mel spectrum."""

from pathlib import Path

import tensorflow as tf

RATE, BATCH = 16_000, 32


def _files(data):
    return tf.data.Dataset.from_tensor_slices(
        sorted(str(path) for path in (Path(data) / "speech").glob("*/*.wav"))
    )


def read(path):
    """One second of sound."""
    sound, _ = tf.audio.decode_wav(tf.io.read_file(path), 1, RATE)
    return tf.squeeze(sound, -1)


def analyse(sound):
    """Spectrum of a recording, or of a batch of them, with noise that is drawn anew."""
    sound += tf.random.normal(tf.shape(sound), stddev=0.01)
    spectrum = tf.abs(tf.signal.stft(sound, 640, 320))
    mel = tf.signal.linear_to_mel_weight_matrix(64, 513, RATE, 60.0, 7_600.0)
    return tf.math.log(tf.matmul(spectrum, mel) + 1e-6)


def naive(data):
    """One map that does it all."""
    return _files(data).map(lambda path: analyse(read(path))).batch(BATCH)


def hand_tuned(data):
    """Sound is kept; what is drawn is drawn for a batch at a time."""
    sounds = _files(data).map(read, num_parallel_calls=tf.data.AUTOTUNE).cache()
    spectra = sounds.batch(BATCH).map(analyse, num_parallel_calls=tf.data.AUTOTUNE)
    return spectra.prefetch(tf.data.AUTOTUNE)
