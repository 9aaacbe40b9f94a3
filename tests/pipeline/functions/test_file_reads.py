from __future__ import annotations

import pytest
import tensorflow as tf

from pipeline.helpers import measured
from pipeline.profile.test_stage_costs import RANGE
from uncork.pipeline.functions.file_reads import count_file_reads, extract_file_reads

FILES = 5


@pytest.fixture
def folder(tmp_path):
    for number in range(FILES):
        (tmp_path / f"{number}.bin").write_bytes(b"x" * (10 + number))
    return str(tmp_path)


def load(folder, number):
    """Files 0 to 4, one of them twice, and something made of them."""
    names = [tf.strings.join([folder, f"/{i}.bin"]) for i in (0, 1, 2, 3, 4, 0)]
    parts = [tf.io.read_file(name) for name in names]
    return tf.strings.length(tf.strings.join(parts)) + tf.cast(number, tf.int32)


def concrete(function):
    specs = tf.TensorSpec([], tf.string), tf.TensorSpec([], tf.int64)
    return tf.function(function).get_concrete_function(*specs)


def test_reading_stops_where_the_files_are_read(folder):
    function = concrete(load)
    assert count_file_reads(function) == 6
    (length,) = extract_file_reads(function)(tf.constant(folder), tf.constant(7, tf.int64))
    assert int(length) == 6 * 10 + 1 + 2 + 3 + 4


@pytest.mark.parametrize(
    "function",
    [
        lambda folder, number: tf.io.read_file(folder),
        lambda folder, number: folder,
        lambda folder, number: (load(folder, number), tf.random.uniform([])),
    ],
)
def test_few_files_or_chance_are_left_alone(function):
    assert extract_file_reads(concrete(function)) is None


def test_what_reading_costs_is_measured(folder):
    found = measured(RANGE(64).map(lambda number: load(folder, number)).batch(4))[1]
    assert found.file_reads.files_per_element == 6
    assert 0 < found.file_reads.cpu_s_per_element <= found.cpu_s_per_element
    assert measured(RANGE(8).map(lambda x: x + 1))[1].file_reads is None
