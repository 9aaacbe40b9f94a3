"""Caches that take long to fill are tried with a part of the data; how long is faked here."""

from __future__ import annotations

import time

import pytest
import tensorflow as tf

from uncork.core.edits.pipeline import Cache
from uncork.engine.subject import data_subset as shorter_data
from uncork.engine.subject.data_subset import ShorterData, seconds_of
from uncork.pipeline.ir.tree import read
from uncork.training.variant import Version


@pytest.fixture
def version():
    data = tf.data.Dataset.range(1000).map(lambda x: 2 * x).batch(10)
    return Version(read(data)).with_pipeline_edits((Cache(stage=1, expects=""),))


@pytest.fixture
def elements_a_second(monkeypatch):
    def set_rate(rate: float) -> list[float]:
        asked = []

        def seconds_of(pipeline, elements):
            asked.append(elements)
            return elements / rate

        monkeypatch.setattr(shorter_data, "seconds_of", seconds_of)
        return asked

    return set_rate


def test_a_cache_that_takes_long_is_filled_with_a_part(version, elements_a_second):
    asked, notes = elements_a_second(10.0), []  # 100 s
    shorter = ShorterData(notes)
    found = shorter.of(version)
    assert found.edits == version.edits
    assert shorter.share(version) == pytest.approx(1 / 9, rel=0.02)
    kept = next(p.node for p in found.pipeline.places if p.node.kind == "cache")
    assert kept.dataset.cardinality() == 112
    assert 100 <= found.pipeline.cardinality <= 102
    assert int(next(iter(found.pipeline.dataset))[1]) == 18
    assert len(notes) == 1
    assert "100 s" in notes[0]
    # The same one the next time, so that it is filled once; another version asks nobody again.
    assert shorter.of(version).pipeline is found.pipeline
    other = version.with_pipeline_edits((Cache(stage=3, expects=""),))
    assert shorter.of(other).pipeline is not found.pipeline
    assert len(asked) == 2  # what is below the second cache
    assert len(notes) == 1


@pytest.mark.parametrize(
    "data",
    [
        tf.data.Dataset.range(1000).batch(900, drop_remainder=True),
        tf.data.Dataset.range(1000).apply(tf.data.experimental.assert_cardinality(1000)),
    ],
)
def test_what_leaves_nothing_of_a_part_is_tried_with_all(data, elements_a_second):
    elements_a_second(0.01)
    notes = []
    version = Version(read(data)).with_pipeline_edits((Cache(stage=1, expects=""),))
    assert ShorterData(notes).of(version) is version
    assert notes == []


def test_one_that_is_filled_soon_is_left_as_it_is(version, elements_a_second):
    elements_a_second(100.0)
    notes = []
    assert ShorterData(notes).of(version) is version
    assert ShorterData(notes).share(version) == 1.0
    assert notes == []


def test_how_long_a_pass_takes_is_seen_in_a_moment(version):
    """All of it where it is brief; the speed of a part where it is not."""

    def wait(x):
        time.sleep(0.02)
        return x

    assert seconds_of(version.pipeline, 1000) < 30.0
    slow = tf.data.Dataset.range(5000).map(lambda x: tf.numpy_function(wait, [x], tf.int64))
    begin = time.perf_counter()
    assert 5.0 < seconds_of(read(slow), 5000) < 5000.0
    assert time.perf_counter() - begin < 60.0


def test_where_nothing_is_kept_there_is_nothing_to_fill(version, elements_a_second):
    asked = elements_a_second(1.0)
    plain = Version(read(tf.data.Dataset.range(1000)))
    assert ShorterData([]).of(plain) is plain
    assert ShorterData([]).of(Version(None)) == Version(None)
    assert asked == []
