"""Small real inputs shared by the tests of the pipeline engine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from uncork.pycode.frames.dataset_lines import record_source_lines

record_source_lines()


def write_jpegs(folder: Path, count: int) -> list[str]:
    """Photos of different sizes, with enough structure that a flip changes them."""
    rng = np.random.default_rng(7)
    paths = []
    for index in range(count):
        coarse = rng.integers(0, 255, (6, 8, 3), dtype=np.uint8)
        image = tf.cast(tf.image.resize(coarse, (40 + index % 3, 60)), tf.uint8)
        path = folder / f"{index:03}.jpg"
        path.write_bytes(tf.io.encode_jpeg(image).numpy())
        paths.append(str(path))
    return paths


@pytest.fixture
def jpegs(tmp_path: Path) -> list[str]:
    return write_jpegs(tmp_path, 12)


def load_and_flip(path, label):
    """Read, decode, resize, random flip, scale: the usual augmentation."""
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    image = tf.image.resize(image, [16, 16])
    image = tf.image.random_flip_left_right(image)
    return image / 255.0, label


@pytest.fixture
def photos(jpegs: list[str]) -> tf.data.Dataset:
    data = tf.data.Dataset.from_tensor_slices((jpegs, list(range(len(jpegs)))))
    return data.shuffle(12).map(load_and_flip).batch(4)
