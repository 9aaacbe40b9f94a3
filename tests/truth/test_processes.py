from __future__ import annotations

import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil

from benchmarks.truth.processes import run

FOREVER = """
import subprocess, sys
child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])
print(child.pid, flush=True)
child.wait()
"""


def test_what_a_script_says_is_read_and_its_times_are_left_out(tmp_path: Path):
    text = "print('loss 0.5 in 1.25 s'); print('trained 1,200 samples in 3.50 s')"
    done = run([sys.executable, "-c", text], tmp_path)
    assert done.exit_code == 0
    assert done.trained_s == 3.5
    assert done.lines == ("loss 0.5 in T", "trained 1,200 samples in T")


def test_after_the_time_allowed_its_children_are_stopped_too(tmp_path: Path):
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
