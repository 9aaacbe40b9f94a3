from __future__ import annotations

import pytest

from records import MACHINE, observed, stage
from uncork.core.base.record import replace
from uncork.rules.correctness import repeated_draws
from uncork.rules.judge import judge

ALIKE = replace(stage(1, "map", 0.001, parallelism=1), has_repeating_randomness=True)


def found(*stages, **workload):
    seen = observed(stage(0, "from_tensor_slices"), *stages, workload={"epochs": 3, **workload})
    return list(repeated_draws.find(seen, MACHINE))


def test_draws_that_begin_again_are_a_trap_with_nothing_to_win():
    (finding,) = found(ALIKE, stage(2, "batch"))
    assert finding.cause == "repeated_draws"
    assert finding.severity == "correctness"
    assert finding.upper_bound == 1.0
    assert finding.at == ALIKE.at


@pytest.mark.parametrize("above", ["repeat", "cache"])
def test_what_is_read_through_these_is_another_matter(above):
    assert not found(ALIKE, stage(2, above))


@pytest.mark.parametrize("below", ["repeat", "cache"])
def test_below_it_they_change_nothing(below):
    assert found(stage(1, below), replace(ALIKE, index=2))


@pytest.mark.parametrize(
    "workload",
    [
        {"epochs": 1},
        {"is_epoch_count_assumed": True},
        {"has_explicit_steps": True},
        {"is_dataset_recreated": True},
    ],
    ids=str,
)
def test_only_where_there_certainly_are_several_passes(workload):
    assert not found(ALIKE, **workload)


def test_the_trap_comes_before_every_brake():
    slow = stage(2, "map", 0.09, parallelism=1)
    seen = observed(ALIKE, slow, shares={"input": 0.8, "step": 0.2}, workload={"epochs": 3})
    causes = [finding.cause for finding in judge(seen, MACHINE).findings]
    assert causes == ["repeated_draws", "serial_map"]
