from __future__ import annotations

import pytest

from records import MACHINE, observed, stage
from uncork.core.evidence.stage import CachePoint, InlinedCost, VectorizedCost
from uncork.rules.input import cache, per_element_work

WAITING = {"input": 0.8, "host": 0.0, "step": 0.2}
POINT = CachePoint(element_count=1000, memory_bytes=1000, saved_cpu_s_per_step=0.08)


def at_once(cost_s: float) -> VectorizedCost:
    return VectorizedCost(batch_size=32, cpu_s_per_element=cost_s, wall_s_per_element=cost_s)


def inline(cost_s: float) -> InlinedCost:
    return InlinedCost(cpu_s_per_element=cost_s, wall_s_per_element=cost_s)


def diagnosis(each_s: float, stacked: VectorizedCost | None, shares=None, here=None):
    parse = stage(
        1, "map", each_s, name="parse", at="a.py:7", parallelism=1, vectorized_cost=stacked,
        cache_point=POINT, inlined_cost=here,
    )  # fmt: skip
    return observed(stage(0, "range"), parse, stage(2, "batch"), shares=shares or WAITING)


def found(each_s, stacked, shares=None, here=None):
    return list(per_element_work.find(diagnosis(each_s, stacked, shares, here), MACHINE))


def test_a_map_that_costs_little_at_once_is_named_with_both_costs():
    (finding,) = found(0.09, at_once(0.002))
    assert finding.cause == "per_element_work"
    assert finding.at == "a.py:7"
    assert "map(parse)" in finding.evidence
    assert "90 ms of CPU" in finding.evidence
    assert "takes 2 ms" in finding.evidence
    assert finding.upper_bound > 3


def test_where_a_part_stays_before_the_batch_that_is_told():
    half = VectorizedCost(
        batch_size=32,
        cpu_s_per_element=0.002,
        wall_s_per_element=0.002,
        unbatched_bytes=64,
        unbatched_ops=("DecodeWav",),
    )
    (finding,) = found(0.09, half)
    assert "the part after DecodeWav is vectorized over a batch" in finding.evidence
    assert "split the function" in finding.remedy


@pytest.mark.parametrize("stacked", [None, at_once(0.089)])
def test_real_work_is_not_blamed_on_the_calls(stacked):
    assert not found(0.09, stacked)


def test_a_map_that_cannot_be_stacked_is_named_for_its_way_to_another_thread():
    (finding,) = found(0.09, None, here=inline(0.004))
    assert "passes every element to another thread" in finding.evidence
    assert "takes 4 ms" in finding.evidence
    assert "inline_map" in finding.remedy
    assert finding.upper_bound > 3


def test_of_two_ways_the_better_one_is_told():
    (finding,) = found(0.09, at_once(0.05), here=inline(0.004))
    assert "another thread" in finding.evidence
    (finding,) = found(0.09, at_once(0.002), here=inline(0.03))
    assert "vectorized over a batch" in finding.evidence


def test_what_the_training_does_not_wait_for_is_not_named():
    assert not found(0.09, at_once(0.002), {"input": 0.02, "host": 0.0, "step": 0.98})


def test_what_is_cheap_at_once_is_not_for_a_cache_to_spare():
    (finding,) = cache.find(diagnosis(0.09, None), MACHINE)
    assert finding.cause == "cache_missing"
    assert not list(cache.find(diagnosis(0.09, at_once(0.0)), MACHINE))
