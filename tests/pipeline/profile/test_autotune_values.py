from __future__ import annotations

import pytest
import tensorflow as tf

from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.profile.autotune_values import autotuned_parallelism
from uncork.pipeline.profile.throughput import measure_supply

AUTO = tf.data.AUTOTUNE
RANGE = tf.data.Dataset.range


def double(x):
    return 2 * x


def chosen(data):
    """Kinds of the stages for which the autotuner chose, and whether it chose some calls."""
    iterator = iter(data)
    for _ in range(3):
        next(iterator)
    pipeline = read_pipeline(data)
    found = autotuned_parallelism(pipeline, iterator)
    return {
        index: pipeline.stage_locations[index].node.kind
        for index, calls in found.items()
        if calls >= 1
    }


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (RANGE(99).map(double, AUTO), {1: "map"}),
        (RANGE(99).map(double, AUTO).batch(2).prefetch(AUTO), {1: "map"}),
        (RANGE(99).map(double, AUTO).map(double, 2).map(double, AUTO), {1: "map", 3: "map"}),
        (RANGE(99).map(double, AUTO).batch(2, num_parallel_calls=AUTO), {1: "map", 2: "batch"}),
        (
            RANGE(9).interleave(lambda x: RANGE(9).map(double, AUTO), num_parallel_calls=AUTO),
            {1: "interleave"},
        ),
        (RANGE(9).flat_map(lambda x: RANGE(9).map(double, AUTO)).map(double, AUTO), {2: "map"}),
        (
            tf.data.Dataset.zip(RANGE(9).map(double, AUTO), RANGE(9).map(double)).map(
                lambda a, b: a + b, AUTO
            ),
            {1: "map", 3: "map", 5: "map"},  # TensorFlow runs the serial one in parallel, too
        ),
        (RANGE(99).map(double, 2).batch(2), {}),
        (RANGE(99), {}),
    ],
)
def test_what_is_left_to_the_autotuner_is_read_from_its_model(data, expected):
    assert chosen(data) == expected


def test_without_an_autotuner_nobody_chose():
    options = tf.data.Options()
    options.autotune.enabled = False
    assert chosen(RANGE(99).map(double, AUTO).with_options(options)) == {}


def test_a_pipeline_that_looks_otherwise_than_the_model_is_not_told_of():
    iterator = iter(RANGE(9).map(double, AUTO))
    other = read_pipeline(RANGE(9).map(double, AUTO).map(double, AUTO))
    assert autotuned_parallelism(other, iterator) == {}


def test_reading_a_pipeline_by_itself_tells_it():
    assert set(
        measure_supply(RANGE(99).map(double, AUTO).batch(2), budget_s=0.05).autotuned_parallelism
    ) == {1}
