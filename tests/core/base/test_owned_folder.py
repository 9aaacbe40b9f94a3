from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from uncork.core.base import owned_folder as module
from uncork.core.base.owned_folder import (
    abandoned_folders,
    has_living_owner,
    last_alive_ns,
    note_alive,
    owned_folder,
)

KILLED = """
import os, signal
from uncork.core.base.owned_folder import owned_folder
with owned_folder() as folder:
    print(folder, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def temp(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def killed() -> Path:
    done = subprocess.run(
        [sys.executable, "-c", KILLED], capture_output=True, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL
    return Path(done.stdout.strip())


def interrupt(folder: Path) -> None:
    assert has_living_owner(folder)
    raise KeyboardInterrupt


def test_it_goes_at_the_end(temp):
    with pytest.raises(KeyboardInterrupt), owned_folder() as folder:
        interrupt(Path(folder))
    assert list(temp.iterdir()) == []
    assert not has_living_owner(Path(folder))


def test_one_of_a_killed_process_is_found_once_at_a_time():
    folder = killed()
    assert not has_living_owner(folder)
    looking = abandoned_folders()
    assert next(looking) == folder
    assert list(abandoned_folders()) == [], "somebody works on it"
    looking.close()
    assert list(abandoned_folders()) == [folder]


def test_others_are_never_found(temp, monkeypatch):
    (temp / "uncork-kept-results").mkdir()
    (temp / "uncork-new").mkdir()
    (temp / "uncork-new" / ".owner").touch()  # not locked yet
    (temp / "uncork-file").touch()
    folder = killed()
    (temp / "uncork-link").symlink_to(folder)
    with owned_folder():
        assert list(abandoned_folders()) == [folder]
    monkeypatch.setattr(os, "getuid", lambda: folder.stat().st_uid + 1)
    assert list(abandoned_folders()) == []


def test_where_nothing_can_be_locked_nothing_is_abandoned(monkeypatch):
    folder = killed()
    monkeypatch.setattr(module, "_lock", lambda opened: False)
    assert list(abandoned_folders()) == []
    assert has_living_owner(folder)


def test_when_it_was_alive_is_noted(monkeypatch):
    with owned_folder() as folder:
        owner = Path(folder, ".owner")
        os.utime(owner, (1e9, 1e9))
        assert last_alive_ns(Path(folder)) == int(1e18) + 4 * 10**9
        note_alive(Path(folder))
        noted = owner.stat().st_mtime_ns
        assert noted > 1e18
        note_alive(Path(folder))
        assert owner.stat().st_mtime_ns == noted
    note_alive(Path(folder))
