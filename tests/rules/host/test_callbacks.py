from __future__ import annotations

import pytest

from records import MACHINE, observed
from uncork.core.evidence.callbacks import CallbackCost, Validation
from uncork.rules.host import callbacks


def found(*costs):
    return list(callbacks.find(observed(step_s=0.1, callbacks=costs), MACHINE))


def cost(seconds, name="Watcher", **changes):
    return CallbackCost(name=name, batch_s=seconds, at="train.py:7", **changes)


def test_a_long_one_is_named_where_its_hook_begins():
    (finding,) = found(cost(0.1))
    assert (finding.cause, finding.at) == ("callbacks", "train.py:7")
    assert finding.upper_bound == pytest.approx(2.0)
    assert finding.share == pytest.approx(0.5)
    assert "Watcher takes 100 ms a batch" in finding.evidence


def test_acting_once_an_epoch_is_not_free():
    (finding,) = found(cost(0.1, action_s=1.0))
    left = 0.1 + 1.0 / observed().workload.steps_per_epoch
    assert finding.upper_bound == pytest.approx(0.2 / left)


def test_one_of_several_can_save_its_own_share_only():
    long, short = found(cost(0.2), cost(0.1, name="Other"))
    assert long.upper_bound == pytest.approx(2.0)
    assert short.upper_bound == pytest.approx(4 / 3)


def test_one_that_traces_is_retracing():
    (finding,) = found(cost(0.1, tracing_s=0.06))
    assert finding.cause == "retracing"
    assert "60 ms of it" in finding.evidence


def test_a_short_one_is_not_named():
    assert found(cost(0.005)) == []
    assert found() == []


def test_where_no_line_is_known_the_call_is_named():
    (finding,) = found(CallbackCost(name="ModelCheckpoint", batch_s=0.1))
    assert finding.at == "train.py:41"


def of_epochs(*costs, **changes):
    work = {"steps_per_epoch": 20}
    seen = observed(step_s=0.1, callbacks=costs, workload=work, **changes)
    return list(callbacks.find(seen, MACHINE))


def test_one_that_takes_long_after_an_epoch_is_named_where_that_hook_begins():
    (finding,) = of_epochs(cost(0.0, epoch_s=1.0, epoch_hook_at="train.py:12"))
    assert (finding.cause, finding.at, finding.share_of) == ("callbacks", "train.py:12", "an epoch")
    assert finding.upper_bound == pytest.approx(1.5)
    assert "Watcher takes 1 s an epoch; the steps of an epoch take 2 s" in finding.evidence


def test_one_that_was_cut_short_takes_longer():
    (finding,) = of_epochs(cost(0.0, epoch_s=20.0, is_lower_bound=True))
    assert "takes more than 20 s an epoch" in finding.evidence


def test_what_the_validation_takes_is_part_of_an_epoch():
    validation = Validation(validation_s=4.0, sample_count=9, validation_count=3, every_epochs=2)
    (finding,) = of_epochs(cost(0.0, epoch_s=1.0), validation=validation)
    assert finding.upper_bound == pytest.approx(5 / 4)


def test_of_an_epoch_without_an_end_nobody_knows():
    endless = observed(
        step_s=0.1, callbacks=(cost(0.0, epoch_s=9.0),), workload={"steps_per_epoch": None}
    )
    assert list(callbacks.find(endless, MACHINE)) == []


def test_both_hooks_of_one_may_be_too_long():
    found = of_epochs(cost(0.1, epoch_s=4.0))
    assert [each.share_of for each in found] == ["the step", "an epoch"]
    assert found[1].upper_bound == pytest.approx(2.0)
