"""A block of executions that are counted, not timed."""

from __future__ import annotations

import itertools

import pytest

from uncork.core.base.errors import NothingToMeasure
from uncork.measure.benchmark import timed_block
from uncork.measure.benchmark.timed_block import time_block


def test_warm_up_executions_are_not_counted():
    executions = itertools.repeat(4)
    block = time_block(executions, 0.0, 32.0)
    assert block.steps == 4
    assert block.samples == 128.0
    assert block.warmup_s >= 0


def test_only_what_ran_is_counted():
    ran = []

    def executions():
        for number in itertools.count():
            ran.append(number)
            yield 2

    block = time_block(executions(), 0.02, 1.0)
    assert block.steps % 2 == 0
    assert 0 < block.steps < 2 * len(ran)
    assert block.samples_per_s > 0


def test_an_error_of_the_training_comes_through():
    def executions():
        yield 1
        raise NothingToMeasure("no batch")

    with pytest.raises(NothingToMeasure):
        time_block(executions(), 0.0, 1.0)


@pytest.mark.parametrize(
    ("execution_s", "least", "warm"), [(0.5, 0, 2), (4.0, 0, 1), (30.0, 0, 1), (30.0, 4, 4)]
)
def test_long_executions_warm_up_once_or_for_each_batch(monkeypatch, execution_s, least, warm):
    clock = itertools.count(0.0, execution_s)
    monkeypatch.setattr(timed_block.time, "perf_counter", lambda: next(clock))
    executions = iter(range(100))
    timed_block._warm_up(executions, 0.0, least)
    assert next(executions) == warm
