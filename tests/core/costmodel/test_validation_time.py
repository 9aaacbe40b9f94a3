from __future__ import annotations

import math

import pytest

from records import measurement, stage, workload_diagnosis
from uncork.core.base.measurement import compare
from uncork.core.base.record import replace
from uncork.core.costmodel.validation_time import (
    epoch_comparison,
    epoch_gain,
    required_part_speedup,
    validation_as_training,
    whole_speedup,
    with_validation_speed,
)
from uncork.core.evidence.callbacks import Validation, ValidationFeed

FEED = ValidationFeed(
    pipeline_digest="4f2a",
    batch_count=10,
    has_default_rewrites=False,
    measurement=measurement(100.0),
    resident_speedup=4.0,
    resident_step_cpu_s=0.1,
    stages=(stage(0, "range"), stage(1, "map", 0.2)),
)


def diagnosed(seconds=3.2, every=1, feed=FEED, steps=10, step_s=0.32):
    base = workload_diagnosis(
        measurement=measurement(32 / step_s),
        validation=Validation(
            validation_s=seconds,
            sample_count=320,
            every_epochs=every,
            validation_count=3,
            feed=feed,
        ),
        busy_core_speed_ratio=0.8,
        memory_available_bytes=7_000,
    )
    workload = replace(base.workload, steps_per_epoch=steps, epochs=6, has_explicit_steps=True)
    return replace(base, workload=workload)


def test_it_is_seen_as_a_training_of_its_own():
    found = validation_as_training(diagnosed(every=2))
    assert found.workload.pipeline_digest == "4f2a"
    assert (found.workload.steps_per_epoch, found.workload.epochs) == (10, 3)
    assert found.workload.batch_size == 32
    assert not found.workload.has_explicit_steps
    assert not found.workload.has_default_rewrites
    assert found.ceilings == {"consumer": 400.0}
    assert found.breakdown["input"] == 0.75
    assert sum(found.breakdown.values()) == 1.0
    assert (found.busy_core_speed_ratio, found.memory_available_bytes) == (0.8, 7_000)


def test_of_what_feeds_it_otherwise_nothing_is_known():
    assert validation_as_training(diagnosed(feed=None)) is None
    assert validation_as_training(workload_diagnosis()) is None


@pytest.mark.parametrize(
    ("changes", "gain"),
    [
        ({}, 1.6),
        ({"every": 2}, 1.5 / 1.125),
        ({"steps": None}, 1.0),
        ({"step_s": 0.032}, 3.52 / 1.12),
    ],
)
def test_its_speed_counts_by_its_part_of_an_epoch(changes, gain):
    assert epoch_gain(diagnosed(**changes), 4.0) == pytest.approx(gain)


def test_a_comparison_of_validations_says_less_of_epochs():
    found = compare([1.0, 1.0, 1.0], [4.0, 4.1, 3.9])
    whole = epoch_comparison(diagnosed(), found)
    assert whole.verdict == "faster"
    assert whole.low < whole.ratio < whole.high < 2.0
    assert whole.ratio == pytest.approx(1.6, abs=0.02)


def test_a_comparison_without_an_interval_gets_none():
    whole = epoch_comparison(diagnosed(), compare([1.0], [4.0]))
    assert (whole.low, whole.high, whole.verdict) == (0.0, None, "not_proven")


@pytest.mark.parametrize(("part_s", "gain"), [(2.0, 1.6), (0.1, 1.03), (50.0, 1.2)])
def test_what_the_part_must_gain_is_what_the_whole_gains_by_it(part_s, gain):
    needed = required_part_speedup(2.0, part_s, gain)
    assert whole_speedup(2.0, part_s, needed) == pytest.approx(gain)


def test_a_small_part_can_never_do():
    assert required_part_speedup(2.0, 0.01, 1.03) == math.inf


def test_what_was_measured_last_counts():
    again = with_validation_speed(diagnosed(), 200.0, is_edited=False)
    assert again.validation.validation_s == 1.6
    assert validation_as_training(again) is not None


def test_an_edited_one_is_edited_once():
    after = with_validation_speed(diagnosed(), 400.0, is_edited=True)
    assert after.validation.validation_s == 0.8
    assert validation_as_training(after) is None
