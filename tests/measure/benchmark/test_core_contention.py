"""What several busy cores do to each other."""

from __future__ import annotations

import itertools
import time

import pytest

from uncork.measure.benchmark import core_contention as contention


@pytest.fixture
def took(monkeypatch):
    """Fake how long the work takes on one core, and on all."""

    def fake(alone, all_):
        one, many = itertools.cycle(alone), itertools.cycle(all_)
        monkeypatch.setattr(contention, "usable_cpus", lambda: 4.0)
        monkeypatch.setattr(
            contention, "_took", lambda pool, threads: next(one if threads == 1 else many)
        )

    return fake


def test_the_time_of_one_over_that_of_all(took):
    took([0.010], [0.016])
    assert contention.busy_core_speed_ratio() == pytest.approx(0.625)


def test_a_disturbed_round_does_not_count(took):
    took([0.010], [0.0125, 0.2, 0.0125, 0.0125])
    assert contention.busy_core_speed_ratio() == pytest.approx(0.8)


def test_nobody_is_faster_in_company(took):
    took([0.011], [0.010])
    assert contention.busy_core_speed_ratio() == 1.0


@pytest.mark.parametrize("cpus", [0.5, 1.0, 1.9])
def test_one_core_is_alone(monkeypatch, cpus):
    monkeypatch.setattr(contention, "usable_cpus", lambda: cpus)
    assert contention.busy_core_speed_ratio() == 1.0


def test_waiting_does_not_count(monkeypatch):
    """A thread that waits for a core is not slower for it: here it sleeps, for 0.6 s in all."""
    monkeypatch.setattr(contention.zlib, "compress", lambda text, level: time.sleep(0.05) or b"")
    assert contention._work(0) < 0.3
