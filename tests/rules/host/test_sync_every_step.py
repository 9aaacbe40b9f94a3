from __future__ import annotations

import pytest

from records import MACHINE, observed
from uncork.core.evidence.loop import HostSync
from uncork.rules.host import sync_every_step


def found(share, shares, at="train.py:9"):
    diagnosis = observed(host_sync=HostSync(share=share, at=at), shares=shares, step_s=0.1)
    return list(sync_every_step.find(diagnosis, MACHINE))


def test_what_could_pass_side_by_side_is_named():
    (finding,) = found(0.4, {"input": 0.6, "step": 0.4})
    assert finding.cause == "sync_every_step"
    assert finding.upper_bound == pytest.approx(1 / 0.6)
    assert finding.at == "train.py:9"
    assert "40 ms of a 100 ms step" in finding.evidence


def test_the_device_is_the_limit_where_it_takes_longer():
    (finding,) = found(0.7, {"input": 0.3, "step": 0.7})
    assert finding.upper_bound == pytest.approx(1 / 0.7)


@pytest.mark.parametrize(
    ("share", "shares"),
    [(0.9, {"input": 0.05, "step": 0.95}), (0.02, {"input": 0.6, "step": 0.4}), (0.0, {})],
)
def test_where_nothing_could_be_done_meanwhile_waiting_is_no_loss(share, shares):
    assert found(share, shares) == []


def test_where_keras_drives_nobody_knows():
    assert list(sync_every_step.find(observed(), MACHINE)) == []
