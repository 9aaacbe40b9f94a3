from __future__ import annotations

import pytest

from records import observed
from uncork.core.base.measurement import Spread
from uncork.core.base.record import replace
from uncork.core.costmodel.contradictions import decide, find_contradictions
from uncork.core.costmodel.run_breakdown import break_down_run, is_near_ceiling
from uncork.core.evidence.batches import RecordedBatches

RUN = {"steps_per_epoch": 100, "epochs": 2}
# Steps of 0.1 s wait 90 ms for an input that alone makes a batch in a millisecond.
WAITING = observed(step_s=0.1, workload=RUN, shares={"input": 0.9, "step": 0.1})
WAITING = replace(
    WAITING,
    ceilings={**WAITING.ceilings, "supply": 32_000.0},
    measurement=replace(WAITING.measurement, warmup_s=0.3),
)


def kept(new_s, known_s, **changes):
    made = RecordedBatches(batch_count=9, new_step_s=new_s, known_step_s=known_s)
    return decide(replace(WAITING, recorded_batches=replace(made, **changes)))


def test_waiting_for_an_input_that_alone_is_fast_is_a_contradiction():
    (found,) = find_contradictions(WAITING)
    assert "steps wait 90% of their time for input" in found.figures
    assert "32,000 samples/s where 320 are trained" in found.figures


@pytest.mark.parametrize("supply", [400.0, 700.0])  # 80 and 46 of the 90 ms
def test_waiting_as_long_as_the_input_takes_is_none(supply):
    assert not find_contradictions(
        replace(WAITING, ceilings={**WAITING.ceilings, "supply": supply})
    )


def test_a_little_waiting_is_no_contradiction_however_fast_the_input_is():
    little = observed(step_s=0.1, workload=RUN, shares={"input": 0.1, "step": 0.9})
    little = replace(
        little,
        ceilings={**little.ceilings, "supply": 1e6},
        measurement=WAITING.measurement,
    )
    assert not find_contradictions(little)


def test_a_training_faster_than_its_step_is_a_contradiction():
    odd = observed(step_s=0.1, shares={"step": 1.0}, ceilings={"consumer": 200.0})
    (found,) = find_contradictions(odd)
    assert "at 320 samples/s, its step alone, on one batch from memory, at 200" in found.figures
    assert not find_contradictions(replace(odd, ceilings={"consumer": 310.0}))


def test_an_iterator_that_takes_long_to_start_is_a_contradiction():
    slow = replace(
        WAITING,
        ceilings={"consumer": 3200.0},
        measurement=replace(WAITING.measurement, warmup_s=5.0),
    )
    (found,) = find_contradictions(slow)
    assert "takes 5 s" in found.figures
    short = replace(slow, measurement=replace(slow.measurement, warmup_s=1.0))
    assert not find_contradictions(short)


def test_what_takes_long_only_the_first_time_is_compiling():
    found = kept(0.09, 0.01)
    assert found.breakdown == pytest.approx(
        {"input": 0.1, "host": 0.0, "step": 0.1, "unknown": 0.0, "compile": 0.8}
    )
    assert found.headroom == pytest.approx(10.0)
    assert break_down_run(found).group_s("compile") == pytest.approx(16.0)


def test_compiling_takes_no_more_than_the_wait_beyond_the_input_s_own_time():
    found = kept(5.0, 0.01)
    assert found.breakdown["compile"] == pytest.approx(0.89)
    assert found.breakdown["input"] == pytest.approx(0.01)
    assert break_down_run(found).unexplained_share == pytest.approx(0.0)


def test_what_all_batches_take_is_the_step_s_own():
    found = kept(0.08, 0.08)
    assert found.breakdown["step"] == pytest.approx(0.8)
    assert found.breakdown["input"] == pytest.approx(0.2)
    assert found.ceilings["consumer"] == pytest.approx(400.0)
    assert found.headroom == pytest.approx(1.25)


def test_a_wait_that_is_gone_when_measured_again_was_noise():
    gone = kept(0.01, 0.01, wait=Spread(median=0.02, low=-0.1, high=0.14, n=4))
    assert gone.breakdown["input"] == 0.0
    assert gone.breakdown["step"] == pytest.approx(0.98)
    assert gone.breakdown["unknown"] == pytest.approx(0.02)
    assert is_near_ceiling(gone)


def test_a_wait_that_stays_without_a_reason_is_unexplained():
    stays = kept(0.01, 0.01, wait=Spread(median=0.9, low=0.8, high=1.0, n=4))
    assert stays.breakdown["input"] == pytest.approx(0.9)
    assert break_down_run(stays).unexplained_share == pytest.approx(0.89)


def test_of_two_measurements_of_the_wait_the_smaller_one_counts():
    before = Spread(median=0.6, low=0.5, high=0.7, n=4)
    found = replace(
        WAITING,
        breakdown={**WAITING.breakdown, "input": 0.6, "step": 0.4},
        breakdown_intervals={"input": before},
    )
    more = RecordedBatches(
        batch_count=9,
        new_step_s=0.01,
        known_step_s=0.01,
        wait=Spread(median=0.9, low=0.8, high=1.0, n=4),
    )
    assert decide(replace(found, recorded_batches=more)).breakdown["input"] == pytest.approx(0.6)


def test_a_resident_batch_that_was_longer_than_others_is_no_ceiling():
    odd = observed(step_s=0.1, shares={"step": 1.0}, ceilings={"consumer": 200.0}, headroom=1.0)
    made = RecordedBatches(batch_count=9, new_step_s=0.05, known_step_s=0.05)
    found = decide(replace(odd, recorded_batches=made))
    assert found.ceilings["consumer"] == pytest.approx(640.0)
    assert found.headroom == pytest.approx(2.0)
    assert found.breakdown["input"] == pytest.approx(0.5)
    assert sum(found.breakdown.values()) == pytest.approx(1.0)


def test_the_interval_of_the_wait_shrinks_with_it():
    made = {"wait": Spread(median=0.9, low=0.8, high=1.0, n=4)}
    found = kept(0.09, 0.01, **made).breakdown_intervals["input"]
    assert (found.median, found.low, found.high) == pytest.approx((0.1, 0.8 / 9, 1 / 9))


def test_nothing_measured_decides_nothing():
    assert decide(WAITING) is WAITING


def test_a_loop_of_one_s_own_waits_for_its_own_lines():
    loop = replace(WAITING.workload, kind="custom_loop", model=None)
    assert not find_contradictions(replace(WAITING, workload=loop))
