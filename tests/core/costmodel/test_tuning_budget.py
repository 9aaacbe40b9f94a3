"""A long training is tuned for longer than a short one."""

from __future__ import annotations

import pytest

from records import FINDINGS, WORKLOAD, healthy_diagnosis, measurement, workload_diagnosis
from uncork.core.base.record import replace
from uncork.core.costmodel.tuning_budget import MAX_TRIALS_S, MIN_TRIALS_S, trials_budget_s


def training(epochs, *, speedup=2.0, **changes):
    """Its epochs take 100 s each."""
    work = replace(WORKLOAD, epochs=epochs, steps_per_epoch=1000, **changes)
    return workload_diagnosis(
        workload=work,
        measurement=measurement(320.0),
        headroom=speedup,
        findings=(replace(FINDINGS[0], upper_bound=1.5),),
    )


@pytest.mark.parametrize(
    ("epochs", "speedup", "budget_s"),
    [
        (1, 2.0, MIN_TRIALS_S),
        (20, 2.0, 100.0),  # 1,000 s saved
        (20, 1.0, 100.0 * 2 / 3),  # a finding promises half as much again
        (1000, 2.0, MAX_TRIALS_S),
    ],
)
def test_a_tenth_of_what_is_saved(epochs, speedup, budget_s):
    assert trials_budget_s(training(epochs, speedup=speedup)) == pytest.approx(budget_s)


@pytest.mark.parametrize("changes", [{"is_epoch_count_assumed": True}, {"is_fit_in_loop": True}])
def test_an_unknown_length(changes):
    assert MIN_TRIALS_S < trials_budget_s(training(1000, **changes)) < MAX_TRIALS_S


def test_where_nothing_is_to_be_saved():
    work = replace(WORKLOAD, epochs=10_000, steps_per_epoch=1000)
    assert (
        trials_budget_s(healthy_diagnosis(workload=work, headroom=1.0, findings=())) == MIN_TRIALS_S
    )
