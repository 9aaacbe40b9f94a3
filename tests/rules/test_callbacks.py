from __future__ import annotations

import pytest

from records import MACHINE, observed
from uncork.core.facts import CallbackCost
from uncork.rules import callbacks


def found(*costs):
    return list(callbacks.find(observed(step_s=0.1, callbacks=costs), MACHINE))


def cost(seconds, name="Watcher", **changes):
    return CallbackCost(name=name, seconds=seconds, at="train.py:7", **changes)


def test_a_long_one_is_named_where_its_hook_begins():
    (finding,) = found(cost(0.1))
    assert (finding.cause, finding.at) == ("callbacks", "train.py:7")
    assert finding.upper_bound == pytest.approx(2.0)
    assert finding.share == pytest.approx(0.5)
    assert "Watcher takes 100 ms a batch" in finding.evidence


def test_acting_once_an_epoch_is_not_free():
    (finding,) = found(cost(0.1, once_s=1.0))
    left = 0.1 + 1.0 / observed().workload.steps_per_epoch
    assert finding.upper_bound == pytest.approx(0.2 / left)


def test_one_of_several_can_save_its_own_share_only():
    long, short = found(cost(0.2), cost(0.1, name="Other"))
    assert long.upper_bound == pytest.approx(2.0)
    assert short.upper_bound == pytest.approx(4 / 3)


def test_one_that_traces_is_retracing():
    (finding,) = found(cost(0.1, traced_s=0.06))
    assert finding.cause == "retracing"
    assert "60 ms of them" in finding.evidence


def test_a_short_one_is_not_named():
    assert found(cost(0.005)) == []
    assert found() == []


def test_where_no_line_is_known_the_call_is_named():
    (finding,) = found(CallbackCost(name="ModelCheckpoint", seconds=0.1))
    assert finding.at == "train.py:41"
