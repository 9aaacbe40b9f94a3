from __future__ import annotations

import pytest

from records import MACHINE, measurement, observed
from uncork.core.base.machine import DEFAULT_ALLOCATOR
from uncork.core.base.record import replace
from uncork.rules.judge import judge
from uncork.rules.machine import page_faults

HERE = replace(MACHINE, allocator=DEFAULT_ALLOCATOR)


def training(faulting_s, *, step=1.0):
    measured = replace(measurement(320.0), cpu_s_per_step=0.2, page_fault_s_per_step=faulting_s)
    return observed(measurement=measured, shares={"step": step, "host": 1.0 - step})


def test_memory_that_is_made_anew_in_each_step_is_named():
    (finding,) = page_faults.find(training(0.08), HERE)
    assert finding.upper_bound == pytest.approx(0.2 / 0.12)
    assert "80 ms of 200 ms of CPU a step" in finding.evidence
    assert "MALLOC_ARENA_MAX=1" in finding.remedy


def test_a_little_of_it_is_healthy():
    assert [f.cause for f in judge(training(0.04), HERE).findings] == ["healthy"]


def test_another_allocator_is_not_judged():
    assert list(page_faults.find(training(0.08), MACHINE)) == []


def test_it_stands_only_where_there_is_nothing_else_to_gain():
    assert [f.cause for f in judge(training(0.08), HERE).findings] == ["page_faults"]
    slowed = judge(training(0.08, step=0.7), HERE)
    assert [f.cause for f in slowed.findings] == ["small_steps"]
