from __future__ import annotations

from records import MACHINE, observed
from uncork.core.evidence.correctness import ReshuffledSplit
from uncork.rules.correctness import leaking_split
from uncork.rules.judge import judge

LEAK = ReshuffledSplit(shuffle_at="train.py:9", split_methods=("skip", "take"))


def test_a_split_that_leaks_is_a_trap_with_nothing_to_win():
    (finding,) = leaking_split.find(observed(reshuffled_split=LEAK), MACHINE)
    assert (finding.cause, finding.severity) == ("leaking_split", "correctness")
    assert (finding.at, finding.upper_bound) == ("train.py:9", 1.0)
    assert all(part in finding.evidence for part in LEAK.split_methods)


def test_a_training_without_one_is_left_alone():
    assert list(leaking_split.find(observed(), MACHINE)) == []


def test_it_comes_before_every_brake():
    slow = observed(reshuffled_split=LEAK, shares={"host": 0.6, "step": 0.4})
    assert judge(slow, MACHINE).findings[0].cause == "leaking_split"
