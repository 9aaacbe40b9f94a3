"""Caches that take long to fill are tried with a part of the data; how long is faked here."""

from __future__ import annotations

import time

import pytest
import tensorflow as tf

from uncork.core.edits.pipeline import Cache
from uncork.engine.subject import data_subset as shorter_data
from uncork.engine.subject.data_subset import DataSubset, estimate_pass_s
from uncork.pipeline.ir.tree import read_pipeline
from uncork.training.variant import Variant


@pytest.fixture
def version():
    data = tf.data.Dataset.range(1000).map(lambda x: 2 * x).batch(10)
    return Variant(read_pipeline(data)).with_pipeline_edits((Cache(stage=1, expected_digest=""),))


@pytest.fixture
def elements_a_second(monkeypatch):
    def set_rate(rate: float) -> list[float]:
        asked = []

        def seconds_of(pipeline, elements):
            asked.append(elements)
            return elements / rate

        monkeypatch.setattr(shorter_data, "estimate_pass_s", seconds_of)
        return asked

    return set_rate


def test_a_cache_that_takes_long_is_filled_with_a_part(version, elements_a_second):
    asked, notes = elements_a_second(20.0), []  # 50 s
    shorter = DataSubset(notes)
    found = shorter.subset_of(version)
    assert found.pipeline_edits == version.pipeline_edits
    assert shorter.kept_share(version) == pytest.approx(1 / 9, rel=0.02)
    kept = next(p.node for p in found.pipeline.stage_locations if p.node.kind == "cache")
    assert kept.dataset.cardinality() == 112
    assert 100 <= found.pipeline.cardinality <= 102
    assert int(next(iter(found.pipeline.dataset))[1]) == 18
    assert len(notes) == 1
    assert "50 s" in notes[0]
    # The same one the next time, so that it is filled once; another version asks nobody again.
    assert shorter.subset_of(version).pipeline is found.pipeline
    other = version.with_pipeline_edits((Cache(stage=3, expected_digest=""),))
    assert shorter.subset_of(other).pipeline is not found.pipeline
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
    version = Variant(read_pipeline(data)).with_pipeline_edits(
        (Cache(stage=1, expected_digest=""),)
    )
    assert DataSubset(notes).subset_of(version) is version
    assert notes == []


def test_one_that_is_filled_soon_is_left_as_it_is(version, elements_a_second):
    elements_a_second(200.0)
    notes = []
    assert DataSubset(notes).subset_of(version) is version
    assert DataSubset(notes).kept_share(version) == 1.0
    assert notes == []


def test_how_long_a_pass_takes_is_seen_in_a_moment(version):
    """All of it where it is brief; the speed of a part where it is not."""

    def wait(x):
        time.sleep(0.02)
        return x

    assert estimate_pass_s(version.pipeline, 1000) < 30.0
    slow = tf.data.Dataset.range(5000).map(lambda x: tf.numpy_function(wait, [x], tf.int64))
    begin = time.perf_counter()
    assert 5.0 < estimate_pass_s(read_pipeline(slow), 5000) < 5000.0
    assert time.perf_counter() - begin < 60.0


def test_where_nothing_is_kept_there_is_nothing_to_fill(version, elements_a_second):
    asked = elements_a_second(1.0)
    plain = Variant(read_pipeline(tf.data.Dataset.range(1000)))
    assert DataSubset([]).subset_of(plain) is plain
    assert DataSubset([]).subset_of(Variant(None)) == Variant(None)
    assert asked == []
