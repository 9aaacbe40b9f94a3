from __future__ import annotations

import pytest

from records import MACHINE, observed
from uncork.rules.host import fit_in_loop
from uncork.rules.judge import judge

LOST = {"host": 0.75, "step": 0.25}
LOOP = {"is_fit_in_loop": True}


def test_what_fit_does_at_its_start_and_end_is_named():
    (finding,) = judge(observed(shares=LOST, workload=LOOP), MACHINE).findings
    assert finding.cause == "fit_in_loop"
    assert finding.at == "train.py:41"
    assert finding.upper_bound == pytest.approx(4.0)
    assert "75 ms of 100 ms" in finding.evidence


def test_a_fit_that_is_called_once_is_no_loop():
    assert list(fit_in_loop.find(observed(shares=LOST), MACHINE)) == []


def test_calls_that_cost_little_are_left_alone():
    little = observed(shares={"host": 0.05, "step": 0.95}, workload=LOOP)
    assert list(fit_in_loop.find(little, MACHINE)) == []
