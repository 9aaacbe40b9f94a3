from __future__ import annotations

import pytest

from records import MACHINE, observed, stage
from uncork.rules.input import no_prefetch

TAKING_TURNS = {"input": 0.5, "step": 0.5}
OFF = {"has_default_rewrites": False}
ANALYSE = stage(1, "scan", 0.05, name="analyse")


def found(*stages, shares=None, workload=None):
    diagnosis = observed(
        *stages, shares=shares or TAKING_TURNS, workload={**OFF, **(workload or {})}
    )
    return list(no_prefetch.find(diagnosis, MACHINE))


def test_what_could_run_beside_the_training_is_named():
    (finding,) = found(stage(0, "range"), ANALYSE)
    assert finding.cause == "no_prefetch"
    assert finding.at == "train.py:21"
    assert 1.5 < finding.upper_bound <= 2
    assert "scan(analyse)" in finding.evidence


def test_the_stages_that_carry_options_are_looked_through():
    (finding,) = found(stage(0, "range"), ANALYSE, stage(2, "options", 0.0))
    assert finding.at == "train.py:21"


def test_a_pipeline_that_ends_in_prefetch_is_left_alone():
    assert found(ANALYSE, stage(2, "prefetch", 0.0)) == []


def test_tensorflow_injects_one_by_itself():
    assert found(ANALYSE, workload={"has_default_rewrites": True}) == []


@pytest.mark.parametrize("shares", [{"input": 0.05, "step": 0.95}, {"step": 1.0}])
def test_input_that_costs_little_is_left_alone(shares):
    assert found(ANALYSE, shares=shares) == []


def test_arrays_have_no_pipeline_to_end():
    assert found(ANALYSE, workload={"pipeline_digest": ""}) == []
