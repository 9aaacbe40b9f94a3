"""Two rules about time between kernels: one for compiled steps, one for eager ones."""

from __future__ import annotations

import pytest

from records import MACHINE, observed
from uncork.core.measurement import spread
from uncork.rules import eager, small_steps

BUSY = {"host": 0.6, "step": 0.4}


def causes(shares, **workload):
    diagnosis = observed(shares=shares, workload=workload)
    both = (*small_steps.find(diagnosis, MACHINE), *eager.find(diagnosis, MACHINE))
    return [finding.cause for finding in both]


def test_python_between_compiled_steps():
    assert causes(BUSY) == ["small_steps"]


def test_python_between_eager_ops():
    assert causes(BUSY, eager_step=True) == ["eager_step"]


@pytest.mark.parametrize("rule", [small_steps, eager])
def test_the_evidence_has_both_times(rule):
    diagnosis = observed(shares=BUSY, workload={"eager_step": rule is eager})
    (finding,) = rule.find(diagnosis, MACHINE)
    assert finding.at == ("train.py:33" if rule is eager else "train.py:41")
    assert "60 ms" in finding.evidence
    assert "100 ms" in finding.evidence
    assert finding.upper_bound == pytest.approx(2.5)
    assert finding.share == 0.6


@pytest.mark.parametrize("share", [0.0, 0.05, 0.09])
@pytest.mark.parametrize("eager_step", [False, True])
def test_a_busy_device_is_left_alone(share, eager_step):
    assert causes({"host": share, "step": 1 - share}, eager_step=eager_step) == []


@pytest.mark.parametrize("eager_step", [False, True])
def test_waiting_for_input_is_not_the_host_s_fault(eager_step):
    assert causes({"input": 0.9, "step": 0.1}, eager_step=eager_step) == []


def test_an_unknown_breakdown_is_no_evidence():
    diagnosis = observed(breakdown={})
    assert not [*small_steps.find(diagnosis, MACHINE), *eager.find(diagnosis, MACHINE)]


@pytest.mark.parametrize(
    ("rounds", "named"), [((0.19, 0.2, 0.21), ["small_steps"]), ((0.1, 0.2, 0.3), [])]
)
def test_what_may_be_too_little_is_not_blamed(rounds, named):
    shares = {"host": 0.2, "step": 0.8}
    found = observed(shares=shares, intervals={"host": spread(rounds)})
    assert [f.cause for f in small_steps.find(found, MACHINE)] == named
