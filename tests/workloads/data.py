"""Write the files that the workloads read; equal arguments give equal files.

    python tests/workloads/data.py DIR

    photos/CLASS/*.jpg       480 photographs, 500x375, 40 to 60 KB, ten classes
    records/*.tfrecord       the same in 4 files of tf.train.Example: image (JPEG), label
    houses.csv               20,000 rows: 24 numbers, then the price; one heading line
    reviews.tsv              6,000 lines: 0 or 1, a tab, 5 to 200 words
    ratings.csv              200,000 rows: user (20,000), item (5,000), stars; one heading line
    speech/WORD/*.wav        600 recordings of one second, 16 kHz, 16 bits, six words

What is there already is kept, so an interrupted run continues; delete the folder to start anew.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import wave
from collections.abc import Callable
from pathlib import Path

import numpy as np

_MAKE_PHOTOS = Path(__file__).parents[2] / "examples" / "make_photos.py"
_PHOTOS = 480
_SHARDS = 4
_WORDS = ("down", "go", "left", "right", "stop", "up")
_RATE = 16_000  # samples per second of sound


def photos(into: Path) -> None:
    """One folder of JPEG files for each class."""
    command = [sys.executable, _MAKE_PHOTOS, into, "--count", str(_PHOTOS), "--seed", "0"]
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)


def records(into: Path, photos: Path) -> None:
    """The photographs as TFRecords, shuffled over the shards."""
    import tensorflow as tf  # noqa: PLC0415  # the other files need no TensorFlow

    into.mkdir()
    files = sorted(photos.glob("*/*.jpg"))
    classes = sorted({file.parent.name for file in files})
    order = np.random.default_rng(0).permutation(len(files))
    for shard in range(_SHARDS):
        name = into / f"photos-{shard:05d}-of-{_SHARDS:05d}.tfrecord"
        with tf.io.TFRecordWriter(str(name)) as writer:
            for file in (files[i] for i in order[shard::_SHARDS]):
                writer.write(_example(file.read_bytes(), classes.index(file.parent.name)))


def _example(image: bytes, label: int) -> bytes:
    import tensorflow as tf  # noqa: PLC0415

    feature = {
        "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image])),
        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
    }
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def houses(into: Path) -> None:
    """A table of numbers, the last of which follows from the others."""
    draw = np.random.default_rng(1)
    features = draw.normal(size=(20_000, 24))
    price = features @ draw.normal(size=24) + np.abs(features[:, 0]) + draw.normal(size=20_000) / 4
    heading = ",".join([*(f"feature_{i}" for i in range(24)), "price"])
    table = np.column_stack([features, price])
    np.savetxt(into, table, fmt="%.5f", delimiter=",", header=heading, comments="")


def reviews(into: Path) -> None:
    """Texts of very different length; some words are likelier in one class."""
    draw = np.random.default_rng(2)
    words = np.array([f"word{i}" for i in range(5_000)])
    often = 1.0 / np.arange(1, len(words) + 1)
    lines = []
    for _ in range(6_000):
        label = int(draw.integers(2))
        weights = often * np.where(np.arange(len(words)) % 2 == label, 1.5, 1.0)
        length = int(np.clip(draw.lognormal(3.3, 0.8), 5, 200))
        chosen = draw.choice(words, size=length, p=weights / weights.sum())
        lines.append(f"{label}\t{' '.join(chosen)}\n")
    into.write_text("".join(lines))


def ratings(into: Path) -> None:
    """Who gave which item how many stars; few users and items get most of them."""
    draw = np.random.default_rng(3)
    users = np.minimum(draw.exponential(5_000, 200_000), 19_999).astype(int)
    items = np.minimum(draw.exponential(1_200, 200_000), 4_999).astype(int)
    taste = draw.normal(size=20_000)[users] * draw.normal(size=5_000)[items]
    stars = np.clip(np.rint(3 + taste + draw.normal(size=200_000) / 2), 1, 5).astype(int)
    table = np.column_stack([users, items, stars])
    np.savetxt(into, table, fmt="%d", delimiter=",", header="user,item,stars", comments="")


def speech(into: Path) -> None:
    """Gliding tones in noise, one glide for each word."""
    draw = np.random.default_rng(4)
    t = np.arange(_RATE) / _RATE
    for word, name in enumerate(_WORDS):
        (into / name).mkdir(parents=True)
        for take in range(100):
            start, end = (250 + 120 * word, 900 - 90 * word) * draw.normal(1, 0.05, 2)
            tone = np.sin(2 * np.pi * (start * t + (end - start) * t**2 / 2))
            sound = 0.3 * tone * np.hanning(_RATE) + 0.05 * draw.normal(size=_RATE)
            _write_wave(into / name / f"{take:03d}.wav", sound)


def _write_wave(path: Path, sound: np.ndarray) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(_RATE)
        file.writeframes((np.clip(sound, -1, 1) * 32_767).astype("<i2").tobytes())


def write(directory: Path) -> None:
    """Everything, each part under its final name only when it is whole."""
    directory.mkdir(parents=True, exist_ok=True)
    _once(directory / "photos", photos)
    _once(directory / "records", lambda into: records(into, directory / "photos"))
    _once(directory / "houses.csv", houses)
    _once(directory / "reviews.tsv", reviews)
    _once(directory / "ratings.csv", ratings)
    _once(directory / "speech", speech)


def _once(path: Path, make: Callable[[Path], None]) -> None:
    if path.exists():
        return
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.unfinished")
    make(unfinished)
    unfinished.rename(path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write the files that the workloads read.")
    parser.add_argument("directory", type=Path)
    write(parser.parse_args().directory)
