"""One process at a time writes a file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from uncork.core.base.exclusive_use import exclusive_use, remove_abandoned_locks

HOLDS = """
import sys
from pathlib import Path
from uncork.core.base.exclusive_use import exclusive_use
with exclusive_use(Path(sys.argv[1])) as is_claimed:
    print(is_claimed, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    return folder


def test_it_is_free_again_at_the_end_and_nothing_is_left(temporary: Path, tmp_path: Path) -> None:
    for _ in range(2):
        with exclusive_use(tmp_path / "plan.json") as is_claimed:
            assert is_claimed
    assert list(temporary.iterdir()) == []
    assert not (tmp_path / "plan.json").exists()


def test_other_files_are_free_meanwhile(tmp_path: Path) -> None:
    with (
        exclusive_use(tmp_path / "plan.json"),
        exclusive_use(tmp_path / "other.json") as is_claimed,
    ):
        assert is_claimed


def test_another_name_for_the_same_file_is_the_same(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    with (
        exclusive_use(tmp_path / "plan.json"),
        exclusive_use(tmp_path / "link" / "plan.json") as is_claimed,
    ):
        assert not is_claimed


def test_a_process_that_is_killed_frees_it(temporary: Path, tmp_path: Path) -> None:
    place = tmp_path / "plan.json"
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, place], stdin=pipe, stdout=pipe, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        with exclusive_use(place) as is_claimed:
            assert not is_claimed
        remove_abandoned_locks()  # not that of a process that lives
        with exclusive_use(place) as is_claimed:
            assert not is_claimed
        other.kill()
    assert len(list(temporary.iterdir())) == 1
    remove_abandoned_locks()
    assert list(temporary.iterdir()) == []
    with exclusive_use(place) as is_claimed:
        assert is_claimed


def test_without_room_for_a_lock_nobody_is_kept_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    with exclusive_use(tmp_path / "plan.json") as is_claimed:
        assert is_claimed
