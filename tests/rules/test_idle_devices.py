from __future__ import annotations

import pytest

from records import MACHINE, observed
from uncork.core.record import replace
from uncork.rules import idle_devices, judge

FOUR = replace(MACHINE, logical_devices=4)
COMPUTING = {"input": 0.1, "step": 0.9}


def found(machine, shares=COMPUTING, **workload):
    return list(idle_devices.find(observed(shares=shares, workload=workload), machine))


def test_devices_without_work_are_named_with_what_they_could_take():
    (finding,) = found(FOUR)
    assert (finding.cause, finding.severity) == ("idle_devices", "environment")
    assert finding.upper_bound == pytest.approx(1 / (0.1 + 0.9 / 4))
    assert "sees 4 devices and the training runs on 1" in finding.evidence
    assert finding.at == "train.py:33"


def test_half_of_them_may_be_at_work():
    (finding,) = found(FOUR, replicas=2)
    assert finding.upper_bound == pytest.approx(1 / (0.1 + 0.9 / 2))


@pytest.mark.parametrize(
    ("machine", "shares", "replicas"),
    [(MACHINE, COMPUTING, 1), (FOUR, COMPUTING, 4), (FOUR, {"input": 0.95, "step": 0.05}, 1)],
    ids=["one device", "all at work", "nothing to divide"],
)
def test_where_more_of_them_would_not_help_nothing_is_named(machine, shares, replicas):
    assert found(machine, shares, replicas=replicas) == []


def test_it_comes_before_the_brakes():
    slow = observed(shares={"host": 0.6, "step": 0.4})
    assert judge(slow, FOUR).findings[0].cause == "idle_devices"
