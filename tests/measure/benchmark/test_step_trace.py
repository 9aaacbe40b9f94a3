"""Traces that TensorBoard and XProf can read, with their steps marked."""

from __future__ import annotations

import pytest
import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from uncork.measure.benchmark.step_trace import mark_steps, write_trace

MATRIX = tf.ones([64, 64])


def steps(number):
    for _ in range(number):
        yield len(tf.linalg.matmul(MATRIX, MATRIX)) and 2


def traced(folder):
    space = xplane_pb2.XSpace()
    for file in folder.rglob("*.xplane.pb"):
        space.MergeFromString(file.read_bytes())
    return space


def marks(space):
    """Numbers of steps, and how often each is there."""
    for plane in space.planes:
        names = {number: event.name for number, event in plane.event_metadata.items()}
        for line in plane.lines:
            for event in line.events:
                if names[event.metadata_id] == "train":
                    stats = {plane.stat_metadata[s.metadata_id].name: s for s in event.stats}
                    yield stats["step_num"].int64_value or stats["step_num"].uint64_value


def test_each_execution_is_a_step_with_all_that_it_takes(tmp_path):
    found = []
    write_trace(str(tmp_path), lambda: found.extend(mark_steps(steps(3))))
    assert found == [2, 2, 2]
    assert [number for number in marks(traced(tmp_path)) if number < 3] == [0, 1, 2]


def test_where_nobody_traces_nothing_is_marked():
    given = steps(3)
    assert list(mark_steps(given)) == [2, 2, 2]


def test_an_error_ends_the_trace(tmp_path):
    with pytest.raises(ZeroDivisionError):
        write_trace(str(tmp_path), lambda: 1 / 0)
    write_trace(str(tmp_path), lambda: None)


def test_one_trace_after_the_other_is_kept(tmp_path, monkeypatch):
    for number in range(2):
        write_trace(str(tmp_path / str(number)), lambda: list(mark_steps(steps(1))))
    assert len(list(tmp_path.rglob("*.xplane.pb"))) == 2
