from __future__ import annotations

import pytest

from records import MACHINE, observed, stage
from uncork.core.base.record import replace
from uncork.core.evidence.stage import AUTOTUNE
from uncork.rules.input import serial_maps

WAITING = {"input": 0.8, "step": 0.2}


def found(*stages, shares=None, machine=MACHINE, **changes):
    diagnosis = observed(*stages, shares=WAITING if shares is None else shares, **changes)
    return list(serial_maps.find(diagnosis, machine))


def test_a_serial_map_is_named_with_its_line():
    (finding,) = found(stage(0, "range"), stage(1, "map", 0.09, parallelism=1, name="load"))
    assert finding.cause == "serial_map"
    assert finding.at == "train.py:21"
    assert "map(load)" in finding.evidence
    assert "num_parallel_calls" in finding.remedy
    assert finding.upper_bound == pytest.approx(0.1 / 0.053)


def test_one_that_draws_is_told_apart():
    (finding,) = found(stage(0, "range"), stage(1, "map", 0.09, parallelism=1, is_random=True))
    assert finding.cause == "stateful_serial_map"
    assert "generates random numbers or has state" in finding.evidence


def test_its_share_is_not_more_than_the_input_waits():
    (finding,) = found(stage(0, "map", 0.09, parallelism=1), shares={"input": 0.3, "step": 0.7})
    assert finding.share == 0.3


def test_each_serial_map_is_named():
    maps = [stage(i, "map", 0.05, parallelism=1) for i in range(2)]
    assert [f.at for f in found(*maps)] == ["train.py:20", "train.py:21"]


@pytest.mark.parametrize(
    "fields", [{"parallelism": AUTOTUNE}, {"parallelism": 4}, {"parallelism": None}]
)
def test_a_parallel_map_is_left_alone(fields):
    assert found(stage(0, "map", 0.09, **fields)) == []


@pytest.mark.parametrize("kind", ["batch", "shuffle", "filter", "interleave"])
def test_other_stages_are_left_alone(kind):
    assert found(stage(0, kind, 0.09, parallelism=1)) == []


def test_python_is_another_rule_s_business():
    assert found(stage(0, "map", 0.09, parallelism=1, has_python_code=True)) == []


def test_one_core_wins_nothing():
    machine = replace(MACHINE, cpus=1.0)
    assert found(stage(0, "map", 0.09, parallelism=1), machine=machine) == []


def test_a_step_that_does_not_wait_is_left_alone():
    assert found(stage(0, "map", 0.09, parallelism=1), shares={"input": 0.05}) == []


def test_a_cheap_map_is_left_alone():
    for unexplained_s in (0.0, 0.045):
        slow_batch = stage(1, "batch", 0.095 - unexplained_s)
        assert found(stage(0, "map", 0.001, parallelism=1), slow_batch) == []


def test_unknown_costs_are_no_evidence():
    unknown = stage(0, "map", parallelism=1, cpu_s_per_element=None, wall_s_per_element=None)
    batch = stage(1, "batch", 0.095)
    assert found(unknown, batch) == []
