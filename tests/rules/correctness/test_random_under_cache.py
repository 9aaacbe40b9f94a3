from __future__ import annotations

from records import MACHINE, observed, stage
from uncork.core.base.record import replace
from uncork.rules.correctness import random_under_cache
from uncork.rules.judge import judge

FROZEN = replace(stage(1, "cache", 0.0), has_frozen_randomness=True)


def test_frozen_draws_are_a_trap_with_nothing_to_win():
    (finding,) = random_under_cache.find(observed(stage(0, "map"), FROZEN), MACHINE)
    assert finding.cause == "random_under_cache"
    assert finding.severity == "correctness"
    assert finding.upper_bound == 1.0
    assert finding.at == FROZEN.at


def test_a_cache_over_what_repeats_itself_is_no_trap():
    plain = observed(stage(0, "map"), stage(1, "cache", 0.0))
    assert list(random_under_cache.find(plain, MACHINE)) == []


def test_the_trap_comes_before_every_brake():
    slow = stage(2, "map", 0.09, parallelism=1)
    found = judge(observed(FROZEN, slow, shares={"input": 0.8, "step": 0.2}), MACHINE).findings
    assert [finding.cause for finding in found] == ["random_under_cache", "serial_map"]
