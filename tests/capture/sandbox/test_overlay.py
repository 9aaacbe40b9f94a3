"""What is saved lies in a folder of Uncork's, and reads see it there."""

# Each of these functions is hooked, and is to be called as a script calls it.
# ruff: noqa: PTH104, PTH105, PTH107, PTH110, PTH112, PTH113, PTH116, PTH123, PTH202, PTH207
# ruff: noqa: PTH208, PTH211, SIM115, UP020
from __future__ import annotations

import glob
import io
import os
import pathlib
import runpy
import shutil
from pathlib import Path

import pytest

from uncork.capture.base.patches import PatchSet
from uncork.capture.sandbox import overlay as module
from uncork.capture.sandbox.file_hooks import back_up_files
from uncork.capture.sandbox.overlay import Overlay
from uncork.capture.sandbox.overlay_files import show_saves
from uncork.capture.sandbox.redirected_saves import redirect_saves
from uncork.capture.sandbox.restore import restore_files


@pytest.fixture
def users(tmp_path, monkeypatch):
    (tmp_path / "users").mkdir()
    monkeypatch.chdir(tmp_path / "users")
    return tmp_path / "users"


@pytest.fixture
def saves(tmp_path, users):
    """With all hooks, as in a worker process."""
    own, patches = tmp_path / "of uncork", PatchSet()
    with back_up_files(own / "kept"):
        overlay = Overlay(own / "saves")
        show_saves(overlay, patches)
        yield overlay
        patches.restore()
    restore_files(own / "kept")


def save(overlay: Overlay, path: str, text: str = "saved") -> None:
    with open(overlay.to_write(path), "w") as file:
        file.write(text)
    overlay.note_saved(path)


READS = {
    "open": lambda path: open(path).read(),
    "io.open": lambda path: io.open(path).read(),
    "pathlib": lambda path: Path(path).read_text(),
    "os.open": lambda path: os.read(os.open(path, os.O_RDONLY), 99).decode(),
    "by name": lambda path: open(file=path).read(),
    "bytes": lambda path: open(os.fsencode(path)).read(),
    "absolute": lambda path: open(Path(path).absolute()).read(),
    "through a link": lambda path: open(Path("link", path)).read(),
}


@pytest.mark.parametrize("how", READS)
def test_a_save_is_read(how, saves, users):
    os.symlink(users, "link")
    (users / "a").write_text("of the user's")
    save(saves, "a")
    assert READS[how]("a") == "saved"


def test_the_user_s_file_is_as_it_was(saves, users):
    (users / "a").write_text("of the user's")
    save(saves, "a")
    with saves.own_work():
        assert (users / "a").read_text() == "of the user's"


def test_it_exists_and_is_listed(saves, users):
    (users / "runs").mkdir()
    (users / "runs" / "old").touch()
    save(saves, "runs/new")
    assert os.path.exists("runs/new")
    assert os.path.isfile("runs/new")
    assert os.stat("runs/new").st_size == os.path.getsize("runs/new") == 5
    assert os.access("runs/new", os.R_OK)
    assert sorted(os.listdir("runs")) == ["new", "old"]
    assert sorted(os.listdir(b"runs")) == [b"new", b"old"]
    assert sorted(entry.name for entry in os.scandir("runs")) == ["new", "old"]
    assert sorted(glob.glob("runs/*")) == ["runs/new", "runs/old"]
    assert sorted(pathlib.Path("runs").iterdir()) == [Path("runs/new"), Path("runs/old")]
    assert [(each, sorted(files)) for each, _, files in os.walk("runs")] == [
        ("runs", ["new", "old"])
    ]
    assert not os.path.exists("runs/other")
    with pytest.raises(FileNotFoundError):
        open("runs/other")


def test_a_directory_of_saves_alone(saves):
    save(saves, "made/by/saving")
    assert os.path.isdir("made/by")
    assert os.listdir("made") == ["by"]
    shutil.rmtree("made")
    assert not os.path.exists("made")


def test_it_is_renamed_copied_and_removed(saves, users):
    (users / "best").write_text("of the user's")
    save(saves, "partial")
    os.replace("partial", "best")
    assert not os.path.exists("partial")
    shutil.copy2("best", "copy")
    assert [open(name).read() for name in ("best", "copy")] == ["saved", "saved"]
    os.remove("copy")
    os.remove("best")
    assert not os.path.exists("best")
    with pytest.raises(FileNotFoundError):
        os.remove("best")
    with pytest.raises(FileNotFoundError):
        os.remove("copy")
    with saves.own_work():
        assert {p.name: p.read_text() for p in users.iterdir()} == {"best": "of the user's"}


def test_what_is_written_over_it_stays_there(saves, users):
    save(saves, "a")
    with open("a", "a") as file:
        file.write(" and more")
    assert open("a").read() == "saved and more"
    with open("a", "w") as file:
        file.write("anew")
    assert open("a").read() == "anew"
    with saves.own_work():
        assert list(users.iterdir()) == []


# As a script's own code, with the hooks of both kinds in force.
WRITES = """
import io, os
from pathlib import Path
open("open", "w").write("of a trial")
io.open("io", "w").write("of a trial")
Path("path").open("w").write("of a trial")
os.remove("removed")
os.rename("renamed", "renamed.old")
os.close(os.open("os", os.O_WRONLY | os.O_TRUNC))
"""


def test_what_the_script_writes_itself_is_backed_up(users, tmp_path):
    names = ("open", "io", "path", "os", "removed", "renamed")
    for name in names:
        (users / name).write_text("of the user's")
    own = tmp_path / "of uncork"
    script = tmp_path / "train.py"
    script.write_text(WRITES)
    with back_up_files(own / "kept"), redirect_saves(own / "saves") as saves:
        save(saves.overlay, "a")
        runpy.run_path(str(script))
        assert Path("open").read_text() == "of a trial"
    assert len(restore_files(own / "kept").restored_files) == len(names)
    assert {name: (users / name).read_text() for name in names} == dict.fromkeys(
        names, "of the user's"
    )


def test_nothing_else_is_redirected(saves, users):
    save(saves, "a")
    assert saves.to_read("b") == "b"
    assert saves.to_read(7) == 7
    buffer = io.BytesIO()
    assert saves.to_write(buffer) is buffer
    own = str(Path(saves.to_write("a")))
    assert saves.to_write(own) == own
    (users / "b").write_text("of the user's")
    os.rename("b", "a")
    assert open("a").read() == "of the user's"


def test_a_bucket_is_a_path_as_well(saves):
    save(saves, "gs://bucket/model.keras")
    assert open(saves.to_read("gs://bucket/model.keras")).read() == "saved"


def test_the_oldest_go_but_for_the_first(saves, users, monkeypatch):
    monkeypatch.setattr(module, "_LIMIT", 20)
    (users / "1").write_text("of last week")
    for number in range(6):
        save(saves, str(number), "saved")
    assert sorted(os.listdir()) == ["0", "3", "4", "5"]
    assert saves.dropped == 2
    with pytest.raises(FileNotFoundError):  # rather than a file of last week
        open("1")
    with saves.own_work():
        assert (users / "1").read_text() == "of last week"


def test_without_room_older_ones_go_first(saves, monkeypatch):
    for number in range(4):
        save(saves, str(number))
    free = iter([0, 0, 2**40])
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(1, 1, next(free)))
    assert saves.has_room()
    assert sorted(os.listdir()) == ["0", "3"]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(1, 1, 0))
    assert not saves.has_room()
