from __future__ import annotations

import pytest

from records import MACHINE, observed
from uncork.core.base.record import replace
from uncork.rules.judge import judge
from uncork.rules.machine import idle_devices

FOUR = replace(MACHINE, logical_device_count=4, devices=("GPU:0 A100",) * 4)
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


def test_devices_of_one_processor_share_its_cores():
    one = observed(shares={"step": 1.0})
    two_cores = replace(MACHINE, logical_device_count=2, devices=(), cpus=2.0)
    (finding,) = idle_devices.find(replace(one, busy_core_speed_ratio=0.75), two_cores)
    assert finding.upper_bound == pytest.approx(1.5)
    (finding,) = idle_devices.find(one, replace(two_cores, devices=("GPU", "GPU")))
    assert finding.upper_bound == pytest.approx(2.0)


def test_a_larger_brake_comes_before_it():
    slow = observed(shares={"host": 0.6, "step": 0.4})
    causes = [finding.cause for finding in judge(slow, FOUR).findings]
    assert causes.index("small_steps") < causes.index("idle_devices")
