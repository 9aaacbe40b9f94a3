"""Taking a step apart, on runners whose speed is known and drifts."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest

from records import measurement, workload_diagnosis
from uncork.core.base.measurement import spread
from uncork.engine.diagnose.time_breakdown import (
    breakdown,
    breakdown_with_new_input,
    measure_breakdown,
)
from uncork.measure.benchmark.interleave import Block

CERTAIN = spread([0.2, 0.2, 0.2])


@dataclass
class Machine:
    """A fake machine that slows down from one block to the next, the same for whatever runs."""

    drift: float = 0.0
    blocks: int = 0

    def slowness(self) -> float:
        self.blocks += 1
        return 1.0 + self.drift * self.blocks


@dataclass
class Fake:
    machine: Machine
    step_s: float
    noise: tuple[float, ...] = (1.0,)

    def __post_init__(self):
        self._noise = itertools.cycle(self.noise)

    def prime(self):
        return 0.0

    def block(self, seconds):
        del seconds
        wall_s = 10 * self.step_s * self.machine.slowness() * next(self._noise)
        return Block(steps=10, samples=320, wall_s=wall_s, cpu_s=wall_s, warmup_s=0.0)


class FakeSubject:
    loses_time_between_calls = False
    primed = (0.0, 0)

    def __init__(
        self,
        *,
        whole,
        alone,
        many=None,
        python_s=None,
        most=None,
        drift=0.0,
        noise=(1.0,),
        stalls=(1.0,),
        trained=None,
    ):
        machine = Machine(drift)
        self._runners = [Fake(machine, whole, noise), Fake(machine, alone)]
        self._many = None if many is None else Fake(machine, many, stalls)
        self._python_s, self._most = python_s, most
        self._trained = None if trained is None else Fake(machine, trained)

    def prime_step(self, version):
        return self.primed

    def runner(self, version):
        return self._runners[0]

    def resident_runner(self, version):
        return self._runners[1]

    def grouped_runner(self, version, resident_s):
        return self._many

    def grouped_training_runner(self, version):
        return self._trained

    def python_s(self, resident_s):
        return self._python_s

    def max_python_s(self, version, resident_s):
        return self._most


def apart(**times):
    return measure_breakdown(FakeSubject(**times), None, block_s=1.0, rounds=4)


def test_each_part_is_what_goes_away_without_it():
    found = apart(whole=0.1, alone=0.05, many=0.04)
    expected = {"input": 0.5, "host": 0.1, "step": 0.4, "unknown": 0.0}
    assert found.shares == pytest.approx(expected)
    assert found.consumer_speedup == pytest.approx(2.0)


def test_drift_is_taken_for_no_part_of_the_step():
    still, drifting = (apart(whole=0.1, alone=0.1, many=0.1, drift=d) for d in (0.0, 0.05))
    assert still.shares["step"] == 1.0
    assert drifting.shares["input"] == drifting.shares["host"] == 0.0


def test_noise_is_unexplained_not_blamed_on_the_input():
    found = apart(whole=0.1, alone=0.1, noise=(0.6, 1.6, 1.8, 0.7))
    assert found.shares["input"] == 0.0
    assert found.shares["unknown"] > 0.0


def test_a_round_that_stalls_does_not_hide_what_eleven_show():
    found = apart(whole=0.1, alone=0.1, many=0.02, stalls=(40.0, *[1.0] * 11))
    assert found.intervals["host"].n == 12
    assert found.shares["host"] == pytest.approx(0.8)


def test_grouped_steps_save_no_more_than_watched_steps_spend_in_python():
    lucky = apart(whole=0.1, alone=0.1, many=0.08, most=0.004)
    assert lucky.shares["host"] == pytest.approx(0.04)
    small = apart(whole=0.002, alone=0.002, many=0.0005, most=0.004)
    assert small.shares["host"] == pytest.approx(0.75)


@pytest.mark.parametrize(
    ("trained", "host"),
    [(0.097, 0.03), (0.05, 0.15), (0.12, 0.0), (None, 0.15)],
)
def test_a_modest_part_is_asked_of_the_training(trained, host):
    """What an input beside it uses anyway is not lost to Python; more than resident is not, too."""
    times = {"whole": 0.1, "alone": 0.1, "many": 0.085, "trained": trained}
    found = measure_breakdown(
        FakeSubject(**times), None, block_s=1.0, rounds=4, check_training=True
    )
    assert found.shares["host"] == pytest.approx(host)
    assert apart(**times).shares["host"] == pytest.approx(0.15)


def test_a_large_part_needs_no_such_question():
    times = {"whole": 0.1, "alone": 0.1, "many": 0.05, "trained": 0.1}
    found = measure_breakdown(
        FakeSubject(**times), None, block_s=1.0, rounds=4, check_training=True
    )
    assert found.shares["host"] == pytest.approx(0.5)


def test_what_looks_large_is_looked_at_again():
    """Four rounds of this noise prove nothing, twelve do."""
    noise = (1.3, 0.9, 1.6, 1.05, 1.3, 1.3, 1.25, 1.35, 1.3, 1.2, 1.4, 1.3)
    found = apart(whole=0.1, alone=0.1, noise=noise)
    assert found.intervals["input"].n == 12
    assert found.shares["input"] == pytest.approx(0.23, abs=0.01)


def test_what_is_clear_is_looked_at_once():
    found = apart(whole=0.1, alone=0.05, many=0.04)
    assert found.intervals["input"].n == found.intervals["host"].n == 4


def test_where_steps_cannot_be_grouped_python_is_asked_itself():
    found = apart(whole=0.1, alone=0.1, python_s=0.06)
    assert found.shares["host"] == pytest.approx(0.6)


def test_between_calls_of_fit_nobody_waits_for_input():
    class Repeated(FakeSubject):
        loses_time_between_calls = True

    subject = Repeated(whole=0.1, alone=0.02)
    found = measure_breakdown(subject, None, block_s=1.0, rounds=4)
    expected = {"input": 0.0, "host": 0.8, "step": 0.2, "unknown": 0.0}
    assert found.shares == pytest.approx(expected)
    assert found.intervals["host"].median == pytest.approx(0.8)


def test_where_nothing_tells_the_step_has_it_all():
    assert apart(whole=0.1, alone=0.1).shares["step"] == 1.0


@pytest.mark.parametrize(
    ("waiting", "python"),
    [
        (CERTAIN, CERTAIN),
        (spread([-0.3, -0.2, -0.4]), CERTAIN),
        (spread([0.9, 0.95, 0.99]), spread([0.3, 0.4, 0.5])),
        (spread([1.0]), spread([2.0])),
        (spread([0.1, 0.9, 0.2]), spread([-1.0, 3.0, 0.2])),
    ],
)
def test_shares_add_up_whatever_the_noise(waiting, python):
    found = breakdown(waiting, python)
    assert sum(found.values()) == pytest.approx(1.0)
    assert all(0.0 <= share <= 1.0 for share in found.values())


def test_one_round_alone_proves_nothing():
    assert breakdown(spread([0.5]), spread([0.25])) == {
        "input": 0.0,
        "host": 0.0,
        "step": 0.25,
        "unknown": 0.75,
    }


def test_after_an_edit_of_the_input_the_step_is_known():
    """A batch of 32 took 52 ms, 13 of them on a resident batch; then 20 ms, whatever feeds it."""
    before = workload_diagnosis(
        measurement=measurement(612.0),
        ceilings={"consumer": 2448.0},
        breakdown={"input": 0.74, "host": 0.02, "step": 0.23, "unknown": 0.01},
    )
    found = breakdown_with_new_input(before, measurement(1600.0))
    assert found.consumer_speedup == pytest.approx(2448 / 1600, rel=0.01)
    assert found.shares["input"] == pytest.approx(1 - 1600 / 2448, abs=0.01)
    assert found.shares["host"] == pytest.approx(0.02 * 1600 / 612, abs=0.005)
    assert sum(found.shares.values()) == pytest.approx(1)


def test_a_step_faster_than_its_resident_batch_is_noise():
    before = workload_diagnosis(measurement=measurement(612.0), ceilings={"consumer": 1500.0})
    found = breakdown_with_new_input(before, measurement(1600.0))
    assert (found.consumer_speedup, found.shares["input"]) == (1.0, 0.0)


@pytest.mark.parametrize("changes", [{"tracing_share": 0.2}, {"breakdown": {"compile": 0.3}}])
def test_a_step_that_is_traced_or_compiled_anew_is_measured_again(changes):
    assert breakdown_with_new_input(workload_diagnosis(**changes), measurement(1600.0)) is None


def test_what_the_first_step_takes_longer_than_a_later_one_is_its_own():
    subject = FakeSubject(whole=0.1, alone=0.1)
    subject.primed = (2.2, 2)
    found = measure_breakdown(subject, None, block_s=1.0, rounds=3, check_training=True)
    assert found.first_step_s == pytest.approx(2.0, rel=0.05)
    unasked = measure_breakdown(subject, None, block_s=1.0, rounds=3)
    assert unasked.first_step_s == 0.0
