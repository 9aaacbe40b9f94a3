from __future__ import annotations

import pytest

from records import MACHINE, observed, stage
from uncork.core.base.record import replace
from uncork.core.costmodel.attribution import discarded_cpu_s
from uncork.core.evidence.stage import AUTOTUNE, INFINITE_LENGTH
from uncork.rules.input import autotune_memory

# A step of 100 ms: 40 ms on a resident batch, and both cores busy all the time.
SHARES = {"input": 0.6, "step": 0.4}


def diagnosis(
    *, ahead=256, length=INFINITE_LENGTH, steps=30, kind="custom_loop", cpu_s=0.19, own=0.06
):
    found = observed(
        stage(0, "range", length=length),
        stage(
            1, "map", 0.05, name="hear", parallelism=256, prefetched_elements=ahead, length=length
        ),
        stage(2, "take", length=steps if kind == "fit" else length),
        shares=SHARES,
        workload={"kind": kind, "steps_per_epoch": steps},
        consumer_cpu_s=own,
    )
    return replace(found, measurement=replace(found.measurement, cpu_s_per_step=cpu_s))


def found(**changes):
    return list(autotune_memory.find(diagnosis(**changes), MACHINE))


def test_what_is_made_in_vain_is_named_with_its_memory():
    (finding,) = found()
    assert finding.cause == "autotune_memory"
    assert finding.at == "train.py:21"
    # 190 ms of CPU, of which 60 are the training's and 50 the input's; 6 % are lost in sharing them
    assert finding.upper_bound == pytest.approx(0.1 / (0.055 * 1.06), rel=0.01)
    for figure in ("256 elements", "after 30 steps", "80 ms of CPU a step"):
        assert figure in finding.evidence


@pytest.mark.parametrize(
    "changes",
    [
        {"ahead": None},
        {"ahead": 3},  # 5 ms a step at most
        {"length": 30},  # each pass takes all of it
        {"length": 32},
        {"steps": None},
        {"own": None},
        {"cpu_s": 0.12},  # all of it accounted for
        {"cpu_s": 0.05},
    ],
)
def test_what_is_taken_or_costs_little_is_left_alone(changes):
    assert found(**changes) == []


def test_a_fit_that_ends_its_passes_by_take_throws_away_too():
    assert found(kind="fit")


def test_a_fit_that_goes_on_with_the_same_pass_throws_nothing_away():
    endless = diagnosis(kind="fit")
    stages = (*endless.stages[:2], replace(endless.stages[2], length=INFINITE_LENGTH))
    endless = replace(endless, stages=stages)
    assert discarded_cpu_s(endless, endless.stages[1]) == 0
    assert list(autotune_memory.find(endless, MACHINE)) == []


def test_a_training_without_a_pipeline_prepares_nothing():
    assert list(autotune_memory.find(observed(shares=SHARES), MACHINE)) == []


def test_what_another_branch_costs_is_not_thrown_away():
    both = diagnosis()
    heavy = stage(0, "map", 0.5, parallelism=AUTOTUNE)
    ahead = replace(both.stages[1], index=1, first_index=1, cpu_s_per_element=0.001)
    both = replace(both, stages=(heavy, ahead, stage(2, "zip", length=INFINITE_LENGTH)))
    assert discarded_cpu_s(both, both.stages[1]) <= 256 * 0.001 / 30
