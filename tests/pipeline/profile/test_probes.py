"""How often probes have their turn, how large their groups become, and what counting looks at.

By fake clocks, that only what is said to take time moves.
"""

from __future__ import annotations

import pytest
import tensorflow as tf

from uncork.pipeline.profile import probes
from uncork.pipeline.profile.probes import Probe, count_elements, time_round_robin


class Clock:
    now = 0.0
    look_s = 0.0

    def monotonic(self):
        self.now += self.look_s
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(probes, "time", made)
    return made


class Turning:
    def __init__(self, clock, takes_s):
        self.clock, self.takes_s, self.turns = clock, takes_s, 0

    def time_group(self):
        self.turns += 1
        self.clock.now += self.takes_s


@pytest.mark.parametrize(
    ("budget_s", "takes_s", "turns"),
    [
        (12.0, 1.0, [4, 4, 4]),
        (0.0, 0.1, [3, 3, 3]),  # a few each, where there is no time
        (1.0, 1.4, [1, 1, 1]),  # but not for ever
        (1.0, 4.0, [1, 0, 0]),
    ],
)
def test_all_have_the_same_number_of_turns(clock, budget_s, takes_s, turns):
    found = [Turning(clock, takes_s) for _ in range(3)]
    time_round_robin(found, budget_s)
    assert [each.turns for each in found] == turns


class Pulling(Probe):
    """Elements that take some CPU and elapsed time each; now and then a group has to wait."""

    def __init__(self, cpu_s, wall_s, waits_s=()):
        super().__init__(tf.data.Dataset.range(1))
        self.each, self.waits_s, self.pulls = (cpu_s, wall_s), [*waits_s], 0

    def _open(self, size):
        self._size, self._groups = size, iter(())

    def _pull(self):
        self.pulls += 1
        waited_s = self.waits_s.pop(0) if self.waits_s else 0.0
        return self._size * self.each[0], self._size * self.each[1] + waited_s


def test_groups_take_long_against_a_call_from_python():
    quick = Pulling(50e-6, 50e-6)
    quick.time_group()
    assert quick._size == 64
    assert quick.medians() == pytest.approx((50e-6, 50e-6))


@pytest.mark.parametrize("waits_s", [(0.0, 0.01), (0.0, 0.02, 0.02), (0.0, 0.0, 0.0, 0.01, 0.02)])
def test_who_waits_for_its_turn_is_not_taken_for_slow(waits_s):
    quick = Pulling(50e-6, 50e-6, waits_s)
    quick.time_group()
    assert quick._size == 64


def test_what_waits_for_a_disk_is_pulled_no_more_often_than_it_takes():
    slow = Pulling(50e-6, 0.1)
    slow.time_group()
    assert (slow._size, slow.pulls) == (1, 3)


def test_counting_looks_at_the_clock_after_each_slow_element(clock):
    made = []

    def slow():
        for number in range(100):
            clock.now += 0.1
            made.append(number)
            yield number

    data = tf.data.Dataset.from_generator(slow, output_signature=tf.TensorSpec([], tf.int64))
    assert count_elements(data, budget_s=0.3) is None
    assert len(made) < 10


def test_what_takes_long_to_open_may_be_quick_to_count(clock):
    """A first element says nothing of the others; one by one they would take twice the time."""
    clock.look_s = 50e-6

    def opened():
        clock.now += 0.3
        yield 200_000

    source = tf.data.Dataset.from_generator(opened, output_signature=tf.TensorSpec([], tf.int64))
    assert count_elements(source.flat_map(tf.data.Dataset.range), budget_s=5) == 200_000
