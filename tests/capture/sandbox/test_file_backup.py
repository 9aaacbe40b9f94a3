from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from uncork.capture.sandbox import file_backup as own_files
from uncork.capture.sandbox import restore as putting_back
from uncork.capture.sandbox.file_hooks import back_up_files
from uncork.capture.sandbox.restore import RestoreResult, restore_files

OLD = b"three days of training"


@pytest.fixture
def kept():
    """Where copies are, away from the script's own files."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder, "kept")


@pytest.fixture
def old(tmp_path):
    path = tmp_path / "result.bin"
    path.write_bytes(OLD)
    os.utime(path, ns=(10**18, 10**18))
    return path


def _with_os(path):
    handle = os.open(path, os.O_WRONLY | os.O_TRUNC)
    os.write(handle, b"new")
    os.close(handle)


def _by_renaming(path):
    other = path.with_suffix(".new")
    other.write_bytes(b"new")
    other.replace(path)


def _new(path):
    """Another file beside it."""
    other = path.with_suffix(".new")
    other.write_bytes(b"new")
    return other


def _by_copying(path):
    tf.io.gfile.copy(str(_new(path)), str(path), overwrite=True)


def _after_a_touch(path):
    path.touch()
    os.utime(path, ns=(10**18, 10**18))
    path.write_bytes(b"new")


def _through_tensorflow(path):
    with tf.io.gfile.GFile(str(path), "w") as file:
        file.write("new")


WAYS = {
    "open": lambda path: open(path, "wb").write(b"new"),  # noqa: PTH123, SIM115 - as scripts do
    "by a relative name": lambda path: open(os.path.relpath(path), "w").close(),  # noqa: PTH123
    "pathlib": lambda path: path.write_bytes(b"new"),
    "in place": lambda path: path.open("r+b").write(b"new"),
    "numpy": lambda path: np.save(path.open("wb"), np.zeros(3)),
    "os.open": _with_os,
    "os.truncate": lambda path: os.truncate(path, 3),
    "removed": lambda path: path.unlink(),
    "removed with its directory": lambda path: shutil.rmtree(path.parent),
    "removed by TensorFlow": lambda path: tf.io.gfile.remove(str(path)),
    "with its directory, by TensorFlow": lambda path: tf.io.gfile.rmtree(str(path.parent)),
    "renamed by TensorFlow": lambda path: tf.io.gfile.rename(str(path), f"{path}.old"),
    "copied over by TensorFlow": _by_copying,
    "named by keywords": lambda path: os.replace(src=_new(path), dst=path),  # noqa: PTH105
    "half by keywords": lambda path: os.rename(_new(path), dst=path),  # noqa: PTH104
    "touched before": _after_a_touch,
    "renamed": lambda path: path.rename(path.with_suffix(".old")),
    "another in its place": _by_renaming,
    "tf.io.gfile": _through_tensorflow,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_file_is_put_back_with_its_times(old, kept, way):
    with back_up_files(kept):
        WAYS[way](old)
    assert not old.exists() or old.read_bytes() != OLD
    assert restore_files(kept) == RestoreResult(restored_files=(str(old),))
    assert old.read_bytes() == OLD
    assert old.stat().st_mtime_ns == 10**18
    assert restore_files(kept) == RestoreResult()


def test_through_a_link_the_file_behind_it_is_put_back(old, kept, tmp_path):
    link = tmp_path / "latest"
    link.symlink_to(old)
    with back_up_files(kept):
        link.write_bytes(b"new")
    restore_files(kept)
    assert old.read_bytes() == OLD
    assert link.is_symlink()


LINKS = {
    "made anew": lambda link, new: (link.unlink(), link.symlink_to(new)),
    "removed": lambda link, new: link.unlink(),
    "a file in its place": lambda link, new: new.replace(link),
    "another link in its place": lambda link, new: _linked(new).replace(link),
}


def _linked(path):
    link = path.with_suffix(".link")
    link.symlink_to(path)
    return link


@pytest.mark.parametrize("way", LINKS)
def test_a_link_points_where_it_did(old, kept, tmp_path, way):
    link, new = tmp_path / "latest", tmp_path / "new.bin"
    link.symlink_to(old.name)
    new.write_bytes(b"new")
    with back_up_files(kept):
        LINKS[way](link, new)
    assert str(link) in restore_files(kept).restored_files
    assert os.readlink(link) == old.name  # noqa: PTH115
    assert old.read_bytes() == OLD
    assert restore_files(kept) == RestoreResult()


def test_a_directory_moves_back_with_what_is_in_it(old, kept, tmp_path):
    runs = tmp_path / "runs"
    runs.mkdir()
    old.rename(runs / "first")
    (runs / "second").write_bytes(OLD)
    with back_up_files(kept):
        (runs / "first").write_bytes(b"before it is moved")
        shutil.move(runs, tmp_path / "of last week")
        (tmp_path / "of last week" / "second").write_bytes(b"behind that")
    assert len(restore_files(kept).restored_files) == 3
    assert [path.read_bytes() for path in sorted(runs.iterdir())] == [OLD, OLD]
    assert not (tmp_path / "of last week").exists()


def test_a_directory_with_another_in_its_place_is_named(kept, tmp_path):
    runs, moved = tmp_path / "runs", tmp_path / "of last week"
    (runs / "first").mkdir(parents=True)
    with back_up_files(kept):
        runs.rename(moved)
        runs.mkdir()
    assert restore_files(kept) == RestoreResult(lost_files=(f"{runs} (moved to {moved})",))
    assert (moved / "first").is_dir()


def test_what_changed_after_the_start_is_no_file_of_the_script_s(old, kept):
    """A training that is running writes it, too."""
    with back_up_files(kept):
        subprocess.run([sys.executable, "-c", f"open({str(old)!r}, 'a').write('.')"], check=True)
        old.write_bytes(b"of a trial")
    assert restore_files(kept) == RestoreResult(restored_files=(str(old),))
    assert old.read_bytes() == OLD + b"."


def test_a_copy_that_cannot_be_put_back_stays(old, kept, monkeypatch, tmp_path):
    def full(*_):
        raise OSError(28, "No space left on device")

    with back_up_files(kept):
        old.write_bytes(b"new")
    (tmp_path / "stays").mkdir()
    with monkeypatch.context() as patched:
        patched.setattr(putting_back.shutil, "copyfileobj", full)
        patched.setattr(putting_back.tempfile, "mkdtemp", lambda prefix: str(tmp_path / "stays"))
        (lost,) = restore_files(kept).lost_files
    copy = tmp_path / "stays" / old.name
    assert copy.read_bytes() == OLD
    assert lost == f"{old} (a copy is at {copy})"


def test_nothing_interrupts_it(old, kept, monkeypatch):
    original = shutil.copyfileobj

    def interrupted(copy, file):
        signal.raise_signal(signal.SIGINT)
        original(copy, file)

    with back_up_files(kept):
        old.write_bytes(b"new")
    monkeypatch.setattr(putting_back.shutil, "copyfileobj", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored, behind nohup
    try:
        with pytest.raises(KeyboardInterrupt):
            restore_files(kept)
    finally:
        signal.signal(signal.SIGINT, before)
    assert old.read_bytes() == OLD


@pytest.mark.parametrize("mode", ["r", "rb"])
def test_what_is_only_read_is_not_copied(old, kept, mode):
    with back_up_files(kept), old.open(mode) as file:
        file.read()
    assert not list(kept.iterdir())


def test_new_files_stay_and_are_told_from_the_trials_on(kept, tmp_path):
    with back_up_files(kept) as files:
        (tmp_path / "prepared").write_text("data")
        files.is_in_trials = True
        for name in ("losses", "losses", "scratch"):
            (tmp_path / name).write_text("new")
        (tmp_path / "scratch").unlink()
        (tmp_path / "prepared").write_text("data again")
        (tmp_path / "prepared").replace(tmp_path / "moved")
        assert files.new_files() == (str(tmp_path / "losses"), str(tmp_path / "moved"))
    assert restore_files(kept) == RestoreResult()
    assert not (tmp_path / "prepared").exists()


def test_what_is_only_added_to_is_left(old, kept):
    """Somebody else may add to the same log, and nobody can tell the lines apart."""
    with back_up_files(kept), old.open("a") as log:
        log.write("more")
    assert restore_files(kept) == RestoreResult()
    assert old.read_bytes() == OLD + b"more"


def test_what_is_added_to_and_then_emptied_is_put_back(old, kept):
    with back_up_files(kept):
        for mode in "aw":
            with old.open(mode) as log:
                log.write("x")
    assert restore_files(kept) == RestoreResult(restored_files=(str(old),))
    assert old.read_bytes() == OLD + b"x"


def test_what_somebody_else_has_written_since_is_left(old, kept):
    """As a training that is running, and saves its best result meanwhile."""
    with back_up_files(kept):
        old.write_bytes(b"of a trial")
        time.sleep(0.02)
        subprocess.run(
            [sys.executable, "-c", f"open({str(old)!r}, 'w').write('the best')"], check=True
        )
    (told,) = restore_files(kept).lost_files
    assert told.startswith(f"{old} (a copy is at ")
    assert Path(told.rpartition(" is at ")[2].rstrip(")")).read_bytes() == OLD
    assert old.read_bytes() == b"the best"


def test_what_is_still_open_at_the_end_is_put_back(old, kept):
    with back_up_files(kept):
        held = old.open("w")
        held.write("of a trial")
        held.flush()
    assert restore_files(kept) == RestoreResult(restored_files=(str(old),))
    held.close()


def test_without_room_for_a_copy_it_is_named(old, kept, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(own_files.shutil, "copyfile", full)
    with back_up_files(kept):
        old.open("r+b").write(b"new")
    assert restore_files(kept) == RestoreResult(lost_files=(str(old),))


def test_a_process_that_is_killed_leaves_what_is_needed(old, kept):
    program = f"""
import os, pathlib
from uncork.capture.sandbox.file_hooks import back_up_files
with back_up_files(pathlib.Path({str(kept)!r})):
    pathlib.Path({str(old)!r}).write_text("new")
    os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-c", program], check=False)
    assert done.returncode == -9
    assert old.read_bytes() == b"new"
    assert restore_files(kept) == RestoreResult(restored_files=(str(old),))
    assert old.read_bytes() == OLD


def test_half_a_line_of_the_list_is_no_error(old, kept):
    with back_up_files(kept):
        old.write_bytes(b"new")
    with (kept / "list").open("ab") as listed:
        listed.write(b'{"path": "L2')
    assert restore_files(kept) == RestoreResult(restored_files=(str(old),))


def test_the_script_is_told_before_and_fails_as_ever(old, kept, tmp_path):
    told = []
    with back_up_files(kept) as files:
        files.on_write = lambda: told.append(old.read_bytes())
        old.write_bytes(b"new")
        with pytest.raises(FileNotFoundError):
            (tmp_path / "no such folder" / "file").write_text("new")
        with pytest.raises(TypeError):
            open(3.5, "w")  # noqa: PTH123, SIM115 - not a path
    assert told == [OLD, b"new", b"new"]


def test_names_of_all_bytes_and_many_threads(kept, tmp_path):
    paths = [tmp_path / os.fsdecode(b"caf\xe9 %d" % number) for number in range(16)]
    for path in paths:
        path.write_bytes(OLD)
    with back_up_files(kept):
        threads = [threading.Thread(target=path.write_bytes, args=(b"new",)) for path in paths]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(restore_files(kept).restored_files) == 16
    assert {path.read_bytes() for path in paths} == {OLD}


def test_afterwards_nothing_is_replaced(kept):
    before = open, os.open, os.rename, os.unlink
    with back_up_files(kept):
        assert open is not before[0]
    assert (open, os.open, os.rename, os.unlink) == before


def test_what_the_script_made_is_left_where_it_is(kept, tmp_path):
    """As data sets do that are prepared beside their place, and as what C writes meanwhile."""
    with back_up_files(kept):
        for making in (os.makedirs, tf.io.gfile.makedirs):
            making(str(tmp_path / "data.incomplete" / "train"))
            with tf.io.TFRecordWriter(str(tmp_path / "data.incomplete" / "train" / "0")) as file:
                file.write(b"record")
            (tmp_path / "data.incomplete").rename(tmp_path / making.__module__)
        (tmp_path / "latest.tmp").symlink_to(tmp_path / "posix")
        (tmp_path / "latest.tmp").replace(tmp_path / "latest")
        with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
            subprocess.run(["touch", f"{folder}/made by another process"], check=True)
        subprocess.run(["touch", str(tmp_path / "made by another process")], check=True)
        (tmp_path / "made by another process").rename(tmp_path / "its final name")
    assert restore_files(kept) == RestoreResult()
    left = {path.name for path in tmp_path.iterdir()}
    assert {"latest", "its final name"} <= left
    assert not {"data.incomplete", "latest.tmp", "made by another process"} & left


def test_links_come_back_with_their_directory(old, kept, tmp_path):
    runs = tmp_path / "runs"
    runs.mkdir()
    (runs / "latest").symlink_to(old)
    (runs / "inner").mkdir()
    (runs / "all").symlink_to(runs / "inner")
    for remove in (shutil.rmtree, lambda path: tf.io.gfile.rmtree(str(path))):
        with back_up_files(kept):
            remove(runs)
        assert len(restore_files(kept).restored_files) == 2
        assert {path.name: os.readlink(path) for path in runs.iterdir() if path.is_symlink()} == {  # noqa: PTH115
            "latest": str(old), "all": str(runs / "inner")
        }  # fmt: skip


def test_a_file_that_is_opened_at_the_exit_is_put_back(old, kept):
    with back_up_files(kept) as files:
        old.write_bytes(b"of a trial")
        files.finish()
        old.write_bytes(b"at its exit")
        old.open("ab").close()  # and its process is killed: nothing more is written down
        files._closed.clear()
    assert restore_files(kept) == RestoreResult(restored_files=(str(old),))


def test_what_is_exchanged_for_another_directory_is_not_lost(kept, tmp_path):
    """The one before is removed once the new one stands in its place."""
    out = tmp_path / "out"
    out.mkdir()
    (out / "result").write_bytes(OLD)
    with back_up_files(kept):
        (tmp_path / "out.tmp").mkdir()
        (tmp_path / "out.tmp" / "result").write_bytes(b"of a trial")
        out.rename(tmp_path / "out.bak")
        (tmp_path / "out.tmp").rename(out)
        shutil.rmtree(tmp_path / "out.bak")
    found = restore_files(kept)
    assert (tmp_path / "out.bak" / "result").read_bytes() == OLD
    assert found.lost_files == (f"{out} (moved to {tmp_path / 'out.bak'})",)


def test_a_log_that_is_added_to_and_then_rotated_is_put_back(old, kept, tmp_path):
    with back_up_files(kept):
        with old.open("ab") as log:
            log.write(b"a line of a trial")
        old.rename(tmp_path / "log.1")
    assert str(old) in restore_files(kept).restored_files
    assert old.read_bytes().startswith(OLD)


def test_what_is_made_for_us_and_removed_by_a_library_is_nobody_s(kept, tmp_path, monkeypatch):
    """AutoGraph writes down what we have it trace, and removes that when Python ends."""
    generated = tmp_path / "__autograph_generated_file.py"
    with back_up_files(kept):
        with monkeypatch.context() as ours:
            ours.setattr(own_files, "_is_uncorks_own", lambda: True)
            handle = os.open(generated, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            os.write(handle, b"def tf__train(): ...")
            os.close(handle)
        generated.unlink()
    assert restore_files(kept) == RestoreResult(restored_files=(), lost_files=())
    assert not generated.exists()


NEW_FILES = sorted(set(WAYS) - {"in place", "os.open", "os.truncate", "touched before"})


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("way", NEW_FILES)
def test_what_is_too_large_to_be_copied_goes_aside(old, kept, monkeypatch, way, elsewhere):
    """Not a byte of last week's checkpoint is lost, or copied."""
    monkeypatch.setattr(own_files, "_LIMIT", 1)
    if elsewhere:  # copies are on another file system
        only_within(old.parent.parent, monkeypatch)
    number = old.stat().st_ino
    with back_up_files(kept):
        WAYS[way](old)
    assert restore_files(kept) == RestoreResult(restored_files=(str(old),))
    assert (old.read_bytes(), old.stat().st_mtime_ns) == (OLD, 10**18)
    assert old.stat().st_ino == number
    assert not [*old.parent.glob(".*"), *old.parent.parent.glob(".result*")]


def only_within(folder, monkeypatch):
    def within(call):
        def put(path, aside):
            if not os.fsdecode(aside).startswith(f"{folder}{os.sep}"):
                raise OSError(18, "Invalid cross-device link")
            call(path, aside)

        return put

    monkeypatch.setattr(own_files, "_RENAME", within(own_files._RENAME))
    monkeypatch.setattr(own_files, "_LINK", within(own_files._LINK))


@pytest.mark.parametrize("way", ["in place", "os.truncate"])
def test_what_is_too_large_and_changed_in_place_is_named(old, kept, monkeypatch, way):
    monkeypatch.setattr(own_files, "_LIMIT", len(OLD) - 1)
    with back_up_files(kept):
        WAYS[way](old)
    assert restore_files(kept) == RestoreResult(lost_files=(str(old),))
    assert old.read_bytes() != OLD


def test_a_large_file_that_is_left_after_all_has_one_name(old, kept, monkeypatch):
    monkeypatch.setattr(own_files, "_LIMIT", 1)
    folder = old.parent / "folder"
    folder.mkdir()
    with back_up_files(kept), pytest.raises(IsADirectoryError):
        os.replace(old, folder)  # noqa: PTH105 - which the system refuses
    assert restore_files(kept) == RestoreResult()
    assert old.stat().st_nlink == 1


def test_a_large_file_that_somebody_else_has_written_since_is_told(old, kept, monkeypatch):
    monkeypatch.setattr(own_files, "_LIMIT", 1)
    with back_up_files(kept):
        old.write_bytes(b"new")
    time.sleep(0.02)
    old.write_bytes(b"of a training that is running")
    (told,) = restore_files(kept).lost_files
    assert Path(told.rpartition("now at ")[2].removesuffix(")")).read_bytes() == OLD
    assert old.read_bytes() == b"of a training that is running"
