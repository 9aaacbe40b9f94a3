from __future__ import annotations

import pytest

from records import MACHINE, WORKLOAD, observed
from uncork.core.facts import StartLine, Unrolled
from uncork.rules import slow_start

STEPS = WORKLOAD.steps_per_epoch * WORKLOAD.epochs


def found(*seconds, step_s=0.01, unrolled=None, **workload):
    lines = tuple(StartLine(at=f"train.py:{n}", seconds=s) for n, s in enumerate(seconds, 5))
    diagnosis = observed(step_s=step_s, start=lines, unrolled=unrolled, workload=workload)
    return list(slow_start.find(diagnosis, MACHINE))


def test_preparing_as_long_as_training_doubles_the_run():
    (finding,) = found(0.75 * STEPS * 0.01, 0.25 * STEPS * 0.01)
    assert (finding.cause, finding.at) == ("slow_start", "train.py:5")
    assert finding.upper_bound == pytest.approx(2.0)
    assert finding.share == pytest.approx(0.5)
    assert "before its training begins" in finding.evidence


def test_a_short_start_of_a_long_training_is_not_named():
    assert found(0.05 * STEPS * 0.01) == []
    assert found() == []


def test_nothing_is_said_where_the_length_of_the_training_is_not_known():
    assert found(1000.0, steps_per_epoch=None) == []


def unrolled(seconds, share=0.8):
    ops = {"ops": 5000, "rounds": 125}
    return Unrolled(at="train.py:30", share=share, first_s=seconds / share, **ops)


def test_a_loop_that_is_written_out_belongs_to_the_start():
    """Nothing is left of it, but the steps that follow take twice as long."""
    training_s = STEPS * 0.01
    (finding,) = found(unrolled=unrolled(8 * training_s))
    assert finding.at == "train.py:30"
    assert finding.upper_bound == pytest.approx((10 + 1) / (2 + 2))
    assert "5,000 ops" in finding.evidence
    assert "unroll" in finding.remedy


def test_what_takes_longest_of_both_is_blamed():
    (finding,) = found(STEPS * 0.01, unrolled=unrolled(0.4 * STEPS * 0.01))
    assert finding.at == "train.py:5"
    assert finding.upper_bound == pytest.approx(2.0)
    assert found(unrolled=unrolled(STEPS * 0.01)) == [], "no longer worth it"
    assert found(0.01 * STEPS * 0.01, unrolled=unrolled(0.01 * STEPS * 0.01)) == []
