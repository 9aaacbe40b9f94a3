"""A serial interleave whose inputs are read side by side."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from pipeline.helpers import epochs, measured
from uncork.core.base.errors import EditRefused
from uncork.core.edits.pipeline import ParallelInterleave
from uncork.pipeline.analysis import concurrency
from uncork.pipeline.equivalence.seeded_twin import create_seeded_copy
from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.transforms.apply import apply_edit

RANGE = tf.data.Dataset.range


def text_files(tmp_path, lines=(7, 3, 0, 12, 5), compression=None):
    names = []
    options = tf.io.TFRecordOptions(compression_type=compression)
    for number, count in enumerate(lines):
        names.append(str(tmp_path / f"part-{number}.tfrecord"))
        with tf.io.TFRecordWriter(names[-1], options) as writer:
            for line in range(count):
                writer.write(b"%d:%d" % (number, line))
    return names


def in_parallel(data, stage):
    """Seeded twins of both are equal in two epochs."""
    before = epochs(create_seeded_copy(read_pipeline(data), 5).dataset)
    pipeline = create_seeded_copy(read_pipeline(data), 5)
    after = apply_edit(pipeline, ParallelInterleave(stage=stage, expected_digest=pipeline.digest))
    assert epochs(after.dataset) == before
    assert after.element_spec == data.element_spec
    assert int(after.dataset.cardinality()) == int(data.cardinality())
    return after


@pytest.mark.parametrize("cycle", [2, 3, 16, tf.data.AUTOTUNE])
@pytest.mark.parametrize("block", [1, 4])
def test_records_come_in_the_same_order(tmp_path, cycle, block):
    files = tf.data.Dataset.from_tensor_slices(text_files(tmp_path, compression="GZIP"))
    data = files.interleave(
        lambda name: tf.data.TFRecordDataset(name, "GZIP"), cycle_length=cycle, block_length=block
    )
    after = in_parallel(data.batch(4), 1)
    assert after.stages[1].parallelism == tf.data.AUTOTUNE
    assert after.stages[1].kind == "interleave"


def test_maps_inside_come_along(tmp_path):
    def decode(line):
        return tf.strings.to_number(tf.strings.split(line, ":"), tf.int32)

    files = tf.data.Dataset.from_tensor_slices(text_files(tmp_path)).shuffle(9, seed=2)
    data = files.interleave(
        lambda name: tf.data.TFRecordDataset(name).map(decode).filter(lambda x: x[1] != 1),
        cycle_length=3,
    )
    in_parallel(data.repeat(2).take(40), 2)


def test_a_corrupt_record_fails_at_the_same_element(tmp_path):
    names = text_files(tmp_path)
    with Path(names[3]).open("r+b") as file:
        file.seek(60)
        file.write(b"\xff\xff\xff")
    files = tf.data.Dataset.from_tensor_slices(names)
    data = files.interleave(tf.data.TFRecordDataset, cycle_length=2)
    before, after = epochs(data), epochs(in_parallel(data, 1).dataset)
    assert before[0].error
    assert after[0] == before[0]


def noisy(x):
    return RANGE(x).map(lambda y: y + tf.random.uniform([], 0, 99, tf.int64))


def asking_python(x):
    return RANGE(x).map(lambda y: tf.numpy_function(lambda v: v + 1, [y], tf.int64))


@pytest.mark.parametrize(
    "data",
    [
        lambda: RANGE(5).interleave(RANGE, cycle_length=1),
        lambda: RANGE(5).interleave(RANGE, cycle_length=2, num_parallel_calls=2),
        lambda: RANGE(5).interleave(noisy, cycle_length=2),
        lambda: RANGE(5).interleave(asking_python, cycle_length=2),
        lambda: RANGE(5).interleave(lambda x: RANGE(x).shuffle(3), cycle_length=2),
        lambda: RANGE(5).flat_map(RANGE),
        lambda: RANGE(5).map(lambda x: x + 1),
    ],
)
def test_what_could_come_otherwise_is_left_serial(data):
    pipeline = read_pipeline(data())
    with pytest.raises(EditRefused, match="read in parallel"):
        apply_edit(pipeline, ParallelInterleave(stage=1, expected_digest=pipeline.digest))


@pytest.mark.parametrize(("files", "readers"), [(1, None), (2, 2), (64, 3)])
def test_there_are_no_more_readers_than_files(files, readers):
    data = tf.data.Dataset.range(files).interleave(tf.data.Dataset.range, cycle_length=3)
    assert concurrency.max_interleave_readers(read_pipeline(data).root) == readers


def test_its_readers_are_told(tmp_path):
    files = tf.data.Dataset.from_tensor_slices(text_files(tmp_path, lines=(40, 40)))
    data = files.interleave(tf.data.TFRecordDataset, cycle_length=2).batch(4)
    stages = measured(data)
    assert [stage.max_readers for stage in stages] == [None, 2, None]
    assert np.isfinite(stages[1].cpu_s_per_element)
