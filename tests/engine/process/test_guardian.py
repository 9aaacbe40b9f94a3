"""Uncork is killed: nothing of it runs on, nothing stays, and the user's files are as they were."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from uncork.core.documents.job import TuneJob
from uncork.engine.process import worker_process as processes
from uncork.engine.process.abandoned import FOLDER_VARIABLE, clear_abandoned_folders
from uncork.engine.process.guardian import _guardians, guardian
from uncork.engine.process.worker_failure import WorkerFailed

# A worker process: it starts others, which are in their own sessions, and overwrites a file.
WORKER = """
import os, subprocess, sys, time
from pathlib import Path
from uncork.capture.sandbox.file_hooks import back_up_files
from uncork.core.documents.job import BACKUP_FOLDER_NAME
from uncork.engine.process.guardian import end_with_parent
folder = Path(sys.argv[1]).parent
end_with_parent(folder)
started = [subprocess.Popen(["sleep", "300"], start_new_session=True).pid]
if os.fork() == 0:
    os.setsid()
    time.sleep(300)
with back_up_files(folder / BACKUP_FOLDER_NAME):
    with open(sys.argv[2], "w") as log:
        log.write("of a trial")
    Path(sys.argv[2] + ".begun").touch()
    while True:  # whoever wants this lock waits
        pass
"""
LEAVES = """
import subprocess, sys
subprocess.Popen(["sleep", "300"], start_new_session=True)
sys.exit(1)
"""
PARENT = """
import sys, threading
from uncork.core.documents.job import TuneJob
from uncork.engine.process import worker_process as processes
log, worker, kept = sys.argv[1:]
processes._command = lambda job, script: [sys.executable, "-c", worker, str(job), log]
if kept != "guarded":
    from contextlib import nullcontext
    from uncork.engine.process import job_folder
    job_folder.guardian = nullcontext
processes.run_worker(TuneJob(), processes.Script("train.py"), lambda event: None)
"""


@pytest.fixture
def temp(tmp_path, monkeypatch):
    (tmp_path / "temp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temp"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temp"))
    return tmp_path / "temp"


def kill_in_the_middle(log: Path, how: str) -> None:
    log.write_text("three days")
    command = [sys.executable, "-c", PARENT, log, WORKER, how]
    with subprocess.Popen(command, start_new_session=True) as parent:
        wait_until(Path(f"{log}.begun").exists)
        assert log.read_text() == "of a trial"
        parent.kill()


def wait_until(happened) -> None:
    end = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.02)


def processes_in(temp: Path) -> list[int]:
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(FOLDER_VARIABLE, "").startswith(str(temp)):
                found.append(process.pid)
    return found


def test_a_guardian_ends_all_and_restores_all(tmp_path, temp):
    log = tmp_path / "log"
    kill_in_the_middle(log, "guarded")
    wait_until(lambda: not list(temp.iterdir()))
    assert log.read_text() == "three days"
    assert processes_in(temp) == []


def test_without_one_the_worker_ends_and_the_next_start_does_the_rest(tmp_path, temp):
    log = tmp_path / "log"
    kill_in_the_middle(log, "alone")
    assert len(list(temp.iterdir())) == 1
    wait_until(lambda: len(processes_in(temp)) == 2)  # the worker process ended with its parent
    assert clear_abandoned_folders().restored_files == (str(log),)
    assert log.read_text() == "three days"
    assert list(temp.iterdir()) == []
    wait_until(lambda: processes_in(temp) == [])


def test_what_was_written_since_is_not_taken_back(tmp_path, temp):
    log = tmp_path / "log"
    kill_in_the_middle(log, "alone")
    log.write_text("of a training")
    os.utime(log, (time.time() + 60,) * 2)
    (lost,) = clear_abandoned_folders().lost_files
    assert log.read_text() == "of a training"
    copy = Path(lost.partition(" (a copy is at ")[2].rstrip(")"))
    assert copy.read_text() == "three days"
    wait_until(lambda: processes_in(temp) == [])


def test_what_a_script_leaves_running_ends_with_its_worker(tmp_path, temp, monkeypatch):
    monkeypatch.setattr(processes, "_command", lambda job, script: [sys.executable, "-c", LEAVES])
    with pytest.raises(WorkerFailed):
        processes.run_worker(TuneJob(), processes.Script("train.py"), lambda _: None, quiet=True)
    wait_until(lambda: processes_in(temp) == [])
    assert list(temp.iterdir()) == []


def test_a_signal_to_the_group_does_not_end_a_guardian(temp):
    with guardian():
        (watching,) = _guardians
        assert os.getpgid(watching.pid) != os.getpgid(0)
        with guardian():
            assert [watching] == _guardians
        assert watching.poll() is None
    assert watching.returncode == 0
    assert _guardians == []
