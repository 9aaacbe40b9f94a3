from __future__ import annotations

import sys
import threading
import tracemalloc

import numpy as np
import pytest

from uncork.measure.profile import statement_profiler as module
from uncork.measure.profile.statement_profiler import profile_statements

MB = 1_000_000


class Clock:
    """A fake clock that only work moves."""

    now = 0.0

    def perf_counter(self):
        return self.now


CLOCK = Clock()


@pytest.fixture
def fake_clock(monkeypatch):
    monkeypatch.setattr(module, "time", CLOCK)


def burn(n):
    CLOCK.now += n
    return n


def loads(rows):
    first = burn(200)
    table = np.ones((2_000, 1_000))
    for _row in range(rows):
        first += burn(2_000)
        first -= 1
    return table[:10], first


def lines_of(function, call):
    begin = function.__code__.co_firstlineno
    return {s.line - begin: s for s in profile_statements(function, call)}


@pytest.mark.usefixtures("fake_clock")
def test_each_statement_has_its_time_and_its_memory():
    found = lines_of(loads, lambda: loads(100))
    assert list(found) == [1, 2, 3, 6]
    all_of_it = 200 + 100 * 2_000
    shares = [200 / all_of_it, 0.0, 100 * 2_000 / all_of_it, 0.0]
    assert [s.share for s in found.values()] == pytest.approx(shares)
    assert 16 * MB <= found[2].allocated_bytes < 17 * MB
    assert max(found[1].allocated_bytes, found[3].allocated_bytes, found[6].allocated_bytes) < MB


def test_what_is_made_and_thrown_away_counts():
    def scaled():
        table = np.ones((1_000, 1_000))
        return (table - 0.5)[:3]

    found = lines_of(scaled, scaled)
    assert 8 * MB <= found[2].allocated_bytes < 9 * MB


def test_what_is_filled_bit_by_bit_counts_as_a_whole():
    def gathered():
        rows = [np.ones(125_000) for _ in range(8)]
        more = []
        for _ in range(4):
            more.append(np.ones(125_000))
        return rows, more

    found = lines_of(gathered, gathered)
    assert 8 * MB <= found[1].allocated_bytes < 9 * MB
    assert 4 * MB <= found[3].allocated_bytes < 5 * MB


@pytest.mark.usefixtures("fake_clock")
def test_statements_inside_with_and_try_are_told_apart():
    lock = threading.Lock()

    def guarded():
        with lock:
            try:
                burn(20_000)
                few = burn(10)
            finally:
                pass
        return few

    found = lines_of(guarded, guarded)
    assert {line: s.share for line, s in found.items() if s.share} == pytest.approx(
        {3: 20_000 / 20_010, 4: 10 / 20_010}
    )


def test_nobody_watches_afterwards():
    def failing():
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        profile_statements(failing, failing)
    assert sys.gettrace() is None
    assert not tracemalloc.is_tracing()


def test_a_debugger_is_left_alone():
    def watch(frame, event, arg):
        return None

    before = sys.gettrace()
    sys.settrace(watch)
    try:
        assert profile_statements(loads, lambda: loads(2)) == ()
        assert sys.gettrace() is watch
    finally:
        sys.settrace(before)


def test_without_a_source_there_is_nothing_to_tell():
    names: dict[str, object] = {}
    exec("def load():\n    return 1", names)
    load = names["load"]
    assert profile_statements(load, load) == ()
