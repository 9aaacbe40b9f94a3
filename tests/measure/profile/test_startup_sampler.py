from __future__ import annotations

import sys
import threading
import time
from types import SimpleNamespace

import pytest
import tensorflow as tf

from uncork.measure.profile import startup_sampler as start_times
from uncork.measure.profile.startup_sampler import StartupSampler, _users_line


class Clock:
    """A fake clock; each look at the running line comes a tenth of a second after the last."""

    now = looks = 0.0

    def perf_counter(self):
        self.looks += 1
        self.now += 0.1
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(start_times, "time", made)
    return made


def prepare(clock, looks):
    until = clock.looks + looks
    ends = time.monotonic() + 60
    while clock.looks < until and time.monotonic() < ends:
        sum(range(1000))


LINE = sys._getframe().f_lineno - 3


def test_a_line_that_takes_long_is_told(clock):
    start = StartupSampler()
    start.start()
    prepare(clock, 6)
    start.stop()
    (line,) = start.lines
    assert line.at.endswith(f"test_startup_sampler.py:{LINE}")
    assert 0.2 < line.seconds <= clock.now


def test_short_ones_are_not_and_nothing_runs_on(monkeypatch):
    monkeypatch.setattr(start_times, "time", SimpleNamespace(perf_counter=lambda: 0.0))
    start = StartupSampler()
    start.start()
    assert "uncork-start" in {thread.name for thread in threading.enumerate()}
    start.stop()
    start.stop()
    assert start.lines == ()
    assert "uncork-start" not in {thread.name for thread in threading.enumerate()}


def test_what_never_began_can_end():
    start = StartupSampler()
    start.stop()
    assert start.lines == ()


def test_imports_are_told_apart(tmp_path, monkeypatch):
    (tmp_path / "slow_to_import.py").write_text("import sys\nsys.looked = sys.look()\n")
    monkeypatch.syspath_prepend(tmp_path)
    seen = []

    def look():
        frame = sys._getframe()
        seen.append(_users_line(frame.f_back))
        seen.append(_users_line(_importing(frame)))
        return True

    monkeypatch.setattr(sys, "look", look, raising=False)
    monkeypatch.delitem(sys.modules, "slow_to_import", raising=False)
    import slow_to_import  # noqa: F401, PLC0415

    module, importing = seen
    (file, _), in_framework, imports = module
    assert file.endswith("slow_to_import.py")  # its own slow lines count
    assert not in_framework
    assert not imports
    (file, _), _, imports = importing  # finding and loading it is an import, of the line that asks
    assert file == __file__
    assert imports


def test_all_imports_together_are_one_line(clock, monkeypatch):
    places = iter([(("a.py", 1), False, True), (("a.py", 2), False, True)] * 20)
    monkeypatch.setattr(start_times, "_users_line", lambda frame: next(places, None))
    start = StartupSampler()
    start.start()
    prepare(clock, 8)
    start.stop()
    (line,) = start.lines
    assert line.kind == "imports"
    assert line.seconds > 0.5


def test_what_a_line_calls_in_tensorflow_is_told_apart():
    (found,) = tf.nest.map_structure(lambda _: _users_line(sys._getframe().f_back), [1])
    (file, _), in_framework, _ = found
    assert file == __file__
    assert in_framework


def test_what_uncork_does_itself_is_no_line_of_the_script(monkeypatch):
    owners = iter(["uncork", "library", "user"])
    monkeypatch.setattr(start_times, "code_owner", lambda frame: next(owners))
    assert _users_line(sys._getframe()) is None
    owners = iter(["library", "uncork", "user"])  # imported through a hook of Uncork's
    assert _users_line(sys._getframe()) is not None


def _importing(frame):
    while not frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return frame


@pytest.mark.parametrize("frame", [None])
def test_a_thread_that_is_gone_has_no_line(frame):
    assert _users_line(frame) is None


def test_what_was_seen_so_far_stays_as_it_is(clock):
    start = StartupSampler()
    assert start.current_lines() == ()
    start.start()
    prepare(clock, 6)
    before = start.current_lines()
    prepare(clock, 6)
    start.stop()
    assert 0.2 < sum(line.seconds for line in before) < sum(line.seconds for line in start.lines)
