from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from uncork.core.evidence.storage import ColdFiles
from uncork.measure.machine.cold_reads import ColdReads
from uncork.pipeline.analysis import input_files as named_files
from uncork.pipeline.analysis.input_files import measure_cold_files, named_file_bytes
from uncork.pipeline.ir.tree import read_pipeline

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
    assert named_file_bytes(read_pipeline(made(names)).root) == 60


def test_names_that_are_no_utf_8_are_names_all_the_same(tmp_path):
    name = os.fsencode(tmp_path) + b"/caf\xe9.jpg"
    Path(os.fsdecode(name)).write_bytes(b"x" * 20)
    assert named_file_bytes(read_pipeline(SLICES([name])).root) == 20


def test_of_many_some_are_asked(names):
    assert named_file_bytes(read_pipeline(SLICES(names * 1000)).root) == pytest.approx(
        60_000, rel=0.02
    )


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
    assert [named_file_bytes(read_pipeline(data).root) for data in others] == [None] * len(others)


def reads(monkeypatch, found):
    """What a fake disk is asked for, and answers."""
    asked = []
    monkeypatch.setattr(
        named_files, "measure_cold_reads", lambda names: asked.extend(names) or found
    )
    return asked


def test_the_disk_is_asked_for_the_files_that_are_read(names, monkeypatch):
    asked = reads(monkeypatch, ColdReads(file_count=3, total_bytes=60, wall_s=0.3))
    found = measure_cold_files(read_pipeline(SLICES(names).map(tf.io.read_file).batch(2)))
    assert asked == [os.fsencode(name) for name in names]
    assert found == ColdFiles(
        total_bytes=60, read_s_per_file=pytest.approx(0.1), read_bytes_per_s=pytest.approx(200.0)
    )


def test_of_large_files_only_the_beginning_was_read(names, monkeypatch):
    reads(monkeypatch, ColdReads(file_count=3, total_bytes=6, wall_s=0.3))
    assert measure_cold_files(read_pipeline(SLICES(names))).read_s_per_file == pytest.approx(1.0)


def test_of_several_sources_the_larger_one_counts(names, monkeypatch):
    asked = reads(monkeypatch, ColdReads(file_count=1, total_bytes=10, wall_s=0.1))
    one, other = (SLICES(part).map(tf.io.read_file) for part in (names[:2], names[1:]))
    both = tf.data.Dataset.zip(one, other)
    assert measure_cold_files(read_pipeline(both)).total_bytes == 50
    assert asked == [os.fsencode(name) for name in names[1:]]


def test_a_disk_that_tells_nothing_is_not_told_of(names, monkeypatch):
    reads(monkeypatch, None)
    assert measure_cold_files(read_pipeline(SLICES(names))) is None
    assert measure_cold_files(read_pipeline(SLICES([1, 2]))) is None


@pytest.mark.parametrize(
    "made",
    [
        lambda names: SLICES(names).shard(2, 0).map(tf.io.read_file),
        lambda names: SLICES(names).take(2).map(tf.io.read_file),
        lambda names: tf.data.TFRecordDataset(SLICES(names).filter(lambda name: True)),
        lambda names: SLICES((names, names)).map(lambda image, mask: image),
        lambda names: SLICES([names]).map(lambda several: several[0]),
        lambda names: tf.data.Dataset.from_tensors(names).map(lambda several: several[0]),
    ],
    ids=["shard", "take", "filter", "two names", "a matrix of names", "at once"],
)
def test_where_not_each_name_is_that_of_a_file_that_is_read_nothing_is_told(
    made, names, monkeypatch
):
    asked = reads(monkeypatch, ColdReads(file_count=3, total_bytes=60, wall_s=0.3))
    assert measure_cold_files(read_pipeline(made(names))) is None
    assert asked == []


@pytest.mark.parametrize(
    "made",
    [
        lambda names: SLICES(names).shuffle(3).repeat().map(tf.io.read_file),
        tf.data.TFRecordDataset,
        lambda names: tf.data.Dataset.zip(SLICES(names).shuffle(3), tf.data.Dataset.range(3)).map(
            lambda name, label: (tf.io.read_file(name), label)
        ),
    ],
    ids=["shuffled", "records", "beside labels"],
)
def test_where_each_is_it_is(made, names, monkeypatch):
    reads(monkeypatch, ColdReads(file_count=3, total_bytes=60, wall_s=0.3))
    assert measure_cold_files(read_pipeline(made(names))).total_bytes == 60
