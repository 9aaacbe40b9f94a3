from __future__ import annotations

import pytest

from records import MACHINE, observed
from uncork.core.evidence.loop import StateGrowth
from uncork.rules.host import growing_state

BANK = StateGrowth(
    name="bank", bytes_per_step=1e6, first_step_s=0.01, added_s_per_step=1e-5, at="train.py:9"
)


def found(grows, **workload):
    diagnosis = observed(
        state_growth=grows, workload={"steps_per_epoch": 100, "epochs": 20, **workload}
    )
    return list(growing_state.find(diagnosis, MACHINE))


def test_it_costs_what_the_steps_of_the_whole_training_come_to():
    (finding,) = found(BANK)
    assert finding.cause == "growing_state"
    assert finding.upper_bound == pytest.approx((0.01 + 1e-5 * 1000) / 0.01)
    assert finding.at == "train.py:9"
    assert "bank grows by 1 MB a step" in finding.evidence
    assert "the last of 2,000 would take 30 ms, the first takes 10 ms" in finding.evidence


@pytest.mark.parametrize("workload", [{"epochs": 1}, {"steps_per_epoch": None}])
def test_a_short_training_hardly_notices(workload):
    assert found(BANK, **workload) == []


@pytest.mark.parametrize(
    "grows",
    [None, StateGrowth(name="bank", bytes_per_step=1e6, first_step_s=0.01, added_s_per_step=-1e-7)],
)
def test_where_steps_do_not_get_longer_nothing_is_named(grows):
    assert found(grows) == []
