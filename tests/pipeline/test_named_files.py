from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from uncork.pipeline import bytes_named, read

SLICES = tf.data.Dataset.from_tensor_slices


@pytest.fixture
def names(tmp_path):
    """Of three files, 60 bytes together."""
    made = [tmp_path / f"{n}.txt" for n in range(3)]
    for n, path in enumerate(made, 1):
        path.write_bytes(b"x" * 10 * n)
    return [str(path) for path in made]


@pytest.mark.parametrize(
    "made",
    [
        SLICES,
        tf.data.Dataset.from_tensors,
        lambda names: SLICES((np.arange(3), names)),
        lambda names: SLICES({"label": [1.0] * 3, "path": names}),
    ],
    ids=["slices", "at once", "beside numbers", "by name"],
)
def test_sizes_of_named_files(made, names):
    assert bytes_named(read(made(names)).root) == 60


def test_names_that_are_no_utf_8_are_names_all_the_same(tmp_path):
    name = os.fsencode(tmp_path) + b"/caf\xe9.jpg"
    Path(os.fsdecode(name)).write_bytes(b"x" * 20)
    assert bytes_named(read(SLICES([name])).root) == 20


def test_of_many_some_are_asked(names):
    assert bytes_named(read(SLICES(names * 1000)).root) == pytest.approx(60_000, rel=0.02)


def test_where_no_file_of_this_host_is_named(names, tmp_path):
    others = [
        SLICES([*names, str(tmp_path / "gone")]),
        SLICES([str(tmp_path)]),  # a folder
        SLICES(["a text that is no name", "\0"]),
        SLICES([b"\xff\xfe"]),
        SLICES(np.arange(3)),
        tf.data.Dataset.from_generator(lambda: iter(names), tf.string),
        tf.data.TextLineDataset(names),
    ]
    assert [bytes_named(read(data).root) for data in others] == [None] * len(others)
