"""Two rules about time between kernels: one for compiled steps, one for eager ones."""

from __future__ import annotations

import pytest

from records import MACHINE, observed
from uncork.core.base.measurement import spread
from uncork.rules.host import eager, small_steps

BUSY = {"host": 0.6, "step": 0.4}


def causes(shares, **workload):
    diagnosis = observed(shares=shares, workload=workload)
    both = (*small_steps.find(diagnosis, MACHINE), *eager.find(diagnosis, MACHINE))
    return [finding.cause for finding in both]


def test_python_between_compiled_steps():
    assert causes(BUSY) == ["small_steps"]


def test_python_between_eager_ops():
    assert causes(BUSY, is_eager_step=True) == ["eager_step"]


@pytest.mark.parametrize("rule", [small_steps, eager])
def test_the_evidence_has_both_times(rule):
    diagnosis = observed(shares=BUSY, workload={"is_eager_step": rule is eager})
    (finding,) = rule.find(diagnosis, MACHINE)
    assert finding.at == ("train.py:33" if rule is eager else "train.py:41")
    assert "60 ms" in finding.evidence
    assert "100 ms" in finding.evidence
    assert finding.upper_bound == pytest.approx(2.5)
    assert finding.share == 0.6


def test_of_a_loop_of_ones_own_the_call_of_its_step_is_named():
    work = {"kind": "custom_loop", "model": None, "step_call_at": "train.py:67"}
    (finding,) = small_steps.find(observed(shares=BUSY, workload=work), MACHINE)
    assert finding.at == "train.py:67"
    assert "into the tf.function" in finding.remedy


def test_fetching_what_is_ready_goes_with_the_loop():
    shares = {"input": 0.3, "host": 0.5, "step": 0.2}
    work = {"kind": "custom_loop", "model": None}
    given = observed(shares=shares, workload=work)
    speed = given.measurement.samples_per_s
    ready, late = (
        observed(shares=shares, workload=work, ceilings={"supply": factor * speed})
        for factor in (20.0, 2.0)
    )
    (quick,) = small_steps.find(ready, MACHINE)
    (slow,) = small_steps.find(late, MACHINE)
    assert quick.upper_bound == pytest.approx(1 / (1 - 0.5 - 0.25))
    assert slow.upper_bound == pytest.approx(2.0)
    waits = {"input": 0.5, "host": 0.05, "step": 0.45}
    nothing = observed(shares=waits, workload=work, ceilings={"supply": 20.0 * speed})
    assert list(small_steps.find(nothing, MACHINE)) == []


@pytest.mark.parametrize("share", [0.0, 0.05, 0.09])
@pytest.mark.parametrize("eager_step", [False, True])
def test_a_busy_device_is_left_alone(share, eager_step):
    assert causes({"host": share, "step": 1 - share}, is_eager_step=eager_step) == []


@pytest.mark.parametrize("eager_step", [False, True])
def test_waiting_for_input_is_not_the_host_s_fault(eager_step):
    assert causes({"input": 0.9, "step": 0.1}, is_eager_step=eager_step) == []


def test_an_unknown_breakdown_is_no_evidence():
    diagnosis = observed(breakdown={})
    assert not [*small_steps.find(diagnosis, MACHINE), *eager.find(diagnosis, MACHINE)]


@pytest.mark.parametrize(
    ("rounds", "named"), [((0.19, 0.2, 0.21), ["small_steps"]), ((0.1, 0.2, 0.3), [])]
)
def test_what_may_be_too_little_is_not_blamed(rounds, named):
    shares = {"host": 0.2, "step": 0.8}
    found = observed(shares=shares, breakdown_intervals={"host": spread(rounds)})
    assert [f.cause for f in small_steps.find(found, MACHINE)] == named
