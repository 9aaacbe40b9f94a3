from __future__ import annotations

import threading
import time

import pytest

from uncork.measure.benchmark import quiesce as module
from uncork.measure.benchmark.quiesce import wait_until_idle


@pytest.fixture
def clocks(monkeypatch):
    """A fake clock that only sleeping moves, and fake threads that are busy for so long."""

    class Clocks:
        now, busy_until = 0.0, 0.0

        def sleep(self, seconds):
            self.now += seconds

        def perf_counter(self):
            return self.now

        def process_time(self):
            return min(self.now, self.busy_until)

    clocks = Clocks()
    monkeypatch.setattr(module, "time", clocks)
    return clocks


def test_it_waits_for_threads_that_end(clocks):
    clocks.busy_until = 0.2
    assert 0.2 <= wait_until_idle() < 0.3


def test_where_all_is_quiet_it_hardly_waits(clocks):
    assert wait_until_idle() < 0.05


def test_for_threads_that_never_end_it_does_not_wait_for_ever(clocks):
    clocks.busy_until = 1e9
    assert wait_until_idle() < 1.0


def test_a_real_thread_is_seen():
    """On a busy machine it may get no time for as long as a look takes, not again and again."""

    def seen():
        ended = threading.Event()

        def work():
            until = time.perf_counter() + 0.2
            while time.perf_counter() < until:
                pass
            ended.set()

        thread = threading.Thread(target=work)
        thread.start()
        wait_until_idle()
        waited = ended.is_set()
        thread.join()
        return waited

    assert any(seen() for _ in range(10))
