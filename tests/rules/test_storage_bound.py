from __future__ import annotations

import pytest

from records import MACHINE, observed, stage
from uncork.core.stage import Reading
from uncork.rules import storage_bound

WAITING = {"input": 0.8, "step": 0.2}


def found(files=40, read_s=0.06, *, cost_s=0.09, shares=None):
    reading = None if files is None else Reading(files=files, cpu_s_per_element=read_s)
    load = stage(1, "map", cost_s, name="load", reading=reading)
    return list(storage_bound.find(observed(load, shares=shares or WAITING), MACHINE))


def test_opening_many_files_is_named_with_its_time():
    (finding,) = found()
    assert finding.cause == "storage_bound"
    assert finding.at == "train.py:21"
    assert finding.upper_bound == pytest.approx(0.1 / (0.09 - 0.06 * 39 / 40))
    for figure in ("40 files", "60 ms of 90 ms", "map(load)"):
        assert figure in finding.evidence


@pytest.mark.parametrize(
    "changes",
    [
        {"files": None},
        {"read_s": 0.001},
        {"cost_s": 0.0},
        {"shares": {"input": 0.05, "step": 0.95}},
    ],
)
def test_what_costs_little_is_left_alone(changes):
    assert found(**changes) == []
