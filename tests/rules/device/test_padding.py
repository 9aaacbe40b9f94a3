from __future__ import annotations

import pytest

from records import MACHINE, observed, stage
from uncork.core.base.measurement import compare
from uncork.core.evidence.model import BatchPadding
from uncork.rules.device import padding

FASTER = compare([100, 101, 99, 100, 100, 101], [300, 302, 297, 301, 300, 303])
ALIKE = compare([100, 101, 99, 100, 100, 101], [100, 99, 101, 101, 100, 100])
COMPUTING = {"step": 0.9, "input": 0.1}


def found(*stages, padded=None, cut=FASTER, shares=None):
    told = (
        BatchPadding(
            max_length=200, mean_length=33.4, bucketed_mean_length=40.0, truncated_speedup=cut
        )
        if padded is None
        else padded
    )
    diagnosis = observed(*stages, shares=shares or COMPUTING, padding=told)
    return list(padding.find(diagnosis, MACHINE))


def test_a_step_that_ran_faster_without_its_padding_is_named_where_it_is_filled_up():
    (finding,) = found(stage(0, "map"), stage(1, "padded_batch"), stage(2, "prefetch"))
    assert finding.cause == "padding"
    assert finding.at == "train.py:21"
    assert finding.upper_bound == pytest.approx(1 / (0.1 + 0.9 / 3), rel=0.02)
    assert finding.upper_bound_interval[0] < finding.upper_bound < finding.upper_bound_interval[1]
    for figure in ("200 numbers", "from 33 on", "3.0"):
        assert figure in finding.evidence


def test_without_a_pipeline_the_call_is_named():
    (finding,) = found()
    assert finding.at == "train.py:41"


def test_where_the_script_fills_up_in_one_place_that_is_named():
    told = BatchPadding(
        max_length=200,
        mean_length=33.4,
        bucketed_mean_length=40.0,
        truncated_speedup=FASTER,
        at="train.py:7",
    )
    (finding,) = found(padded=told)
    assert finding.at == "train.py:7"
    (finding,) = found(stage(0, "map"), stage(1, "padded_batch"), padded=told)
    assert finding.at == "train.py:21"


@pytest.mark.parametrize("changes", [{"cut": ALIKE}, {"shares": {"step": 0.1, "input": 0.9}}])
def test_what_wins_little_is_left_alone(changes):
    assert found(**changes) == []


def test_what_was_not_seen_is_not_named():
    assert list(padding.find(observed(shares=COMPUTING), MACHINE)) == []
