"""Folders of ours on a disk of the user's: gone at the end, and where their process is killed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from uncork.core.documents.job import TuneJob
from uncork.engine.process import worker_process as processes
from uncork.engine.process.scratch_folders import remove_leftovers, temporary_folder_at
from uncork.engine.process.worker_failure import WorkerFailed
from uncork.engine.process.worker_process import Script, run_worker

KILLED = """
import os, signal, sys
from pathlib import Path
from uncork.engine.process.scratch_folders import temporary_folder_at
job, disk = map(Path, sys.argv[1:])
scratch = job.parent / "scratch-1"
scratch.mkdir()
with temporary_folder_at(disk, scratch) as folder:
    (folder / "half a checkpoint").write_text("weights")
    print(len(os.listdir(disk)), "in it", file=sys.stderr)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_nothing_is_left_where_a_process_was_killed(tmp_path, monkeypatch):
    disk = tmp_path / "checkpoints \udcff"
    disk.mkdir()
    (disk / "model.keras").write_text("of the user's")
    command = [sys.executable, "-c", KILLED]
    monkeypatch.setattr(processes, "_command", lambda job, script: [*command, job, disk])
    with pytest.raises(WorkerFailed) as failed:
        run_worker(TuneJob(), Script("train.py"), lambda event: None, quiet=True)
    assert failed.value.is_killed
    assert "2 in it" in str(failed.value)
    assert [path.name for path in disk.iterdir()] == ["model.keras"]


def test_nothing_else_is_ever_removed(tmp_path, monkeypatch):
    users, scratch = tmp_path / "users", tmp_path / "ours" / "scratch-1"
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".uncork-relative").mkdir()
    users.mkdir()
    scratch.mkdir(parents=True)
    for number, path in enumerate((str(users), "users", ".uncork-relative", "")):
        (scratch / f"beside-{number}").write_text(path)
    remove_leftovers(tmp_path / "ours")
    assert users.exists()
    assert Path(".uncork-relative").exists()


@pytest.mark.parametrize("ending", [None, KeyboardInterrupt, ValueError])
def test_it_goes_at_the_end(tmp_path, ending):
    disk, scratch = tmp_path / "disk", tmp_path / "scratch"
    disk.mkdir()
    scratch.mkdir()
    try:
        with temporary_folder_at(disk, scratch) as folder:
            Path(folder, "file").write_text("of ours")
            if ending is not None:
                raise ending
    except (KeyboardInterrupt, ValueError):
        pass
    assert list(disk.iterdir()) == []
    remove_leftovers(tmp_path)  # and what a note still names is no matter
