from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from benchmarks.truth import processes
from benchmarks.truth.processes import run

FOREVER = """
import subprocess, sys
child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])
print(child.pid, flush=True)
open('ready', 'w').close()
child.wait()
"""


def test_what_a_script_says_is_read_and_its_times_are_left_out(tmp_path: Path):
    text = "print('loss 0.5 in 1.25 s'); print('trained 1,200 samples in 3.50 s')"
    done = run([sys.executable, "-c", text], tmp_path)
    assert done.exit_code == 0
    assert done.trained_s == 3.5
    assert done.lines == ("loss 0.5 in T", "trained 1,200 samples in T")


class WhenReady(threading.Thread):
    """In the place of a timer: the time is up as soon as the script has said what it has to."""

    def __init__(self, interval: float, stop: Callable[[], None]) -> None:
        super().__init__()
        self.interval, self.stop = interval, stop

    def run(self) -> None:
        while not READY.exists():
            time.sleep(0.01)
        self.stop()
        time.sleep(0.2)  # nobody relies on this thread's being over

    def cancel(self) -> None:
        pass


READY = Path()


def test_after_the_time_allowed_its_children_are_stopped_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys.modules[__name__], "READY", tmp_path / "ready")
    monkeypatch.setattr(processes.threading, "Timer", WhenReady)
    done = run([sys.executable, "-c", FOREVER], tmp_path, limit_s=2.0)
    assert done.exit_code is None
    (child,) = done.lines
    assert not _runs(int(child))


def test_an_error_is_kept(tmp_path: Path):
    done = run([sys.executable, "-c", "raise ValueError('no photos')"], tmp_path)
    assert done.exit_code == 1
    assert "no photos" in done.errors


def test_errors_do_not_name_places_of_this_machine(tmp_path: Path):
    text = f"raise ValueError('no photos in {tmp_path} and {Path(__file__)}')"
    done = run([sys.executable, "-c", text], tmp_path)
    assert "no photos in WORK and tests/truth/test_processes.py" in done.errors


def _runs(pid: int) -> bool:
    """Asked a few times: a signal is sent before it has arrived."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for _ in range(100):
            if process.status() == psutil.STATUS_ZOMBIE:
                return False
            time.sleep(0.1)
        return True
    return False
