"""The folder of a process: made once, removed at its end, and by the next one if it was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from uncork.core.base.errors import EditRefused
from uncork.pipeline.ir.cache_files import (
    check_cache_folder,
    create_cache_files,
    remove_process_folder,
)

# Of the package only this module, which knows nothing of TensorFlow: nobody waits for its import.
MINE = """
    import sys, time, types
    import uncork
    for name in ("pipeline", "pipeline.ir"):
        package = types.ModuleType(f"uncork.{name}")
        package.__path__ = [f"{uncork.__path__[0]}/{name.replace('.', '/')}"]
        sys.modules[package.__name__] = package
    from uncork.pipeline.ir.cache_files import create_cache_files
    files = create_cache_files(sys.argv[1], 0)
    open(files.file_prefix + ".index", "w").close()
    print(files.directory.parent, flush=True)
    """


def started(folder: Path, rest: str = "") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", f"{dedent(MINE)}\n{rest}", str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        # Ctrl-C works, even where the tests themselves run in the background.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )


@pytest.mark.slow
@pytest.mark.parametrize("end", ["", "raise ValueError", "sys.exit(3)", "raise KeyboardInterrupt"])
def test_it_goes_with_its_process(tmp_path, end):
    done = started(tmp_path, end)
    assert Path(done.communicate(timeout=60)[0].strip()).parent == tmp_path
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_what_a_killed_process_leaves_the_next_one_removes(tmp_path):
    killed, living = (started(tmp_path, "time.sleep(600)") for _ in range(2))
    left, there = (Path(child.stdout.readline().strip()) for child in (killed, living))
    killed.send_signal(signal.SIGKILL)
    killed.wait(timeout=60)
    assert list(left.rglob("cache.index"))
    create_cache_files(str(tmp_path), 0)
    assert not left.exists()
    assert list(there.rglob("cache.index")), "its process lives"
    living.send_signal(signal.SIGINT)
    living.communicate(timeout=60)
    remove_process_folder(str(tmp_path))
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_child_that_was_forked_leaves_its_parent_s_alone(tmp_path):
    parent = started(
        tmp_path,
        "import os\n"
        "child = os.fork()\n"
        "if not child: sys.exit(0)\n"
        "os.waitpid(child, 0)\n"
        "print(files.is_complete, flush=True)",
    )
    assert parent.communicate(timeout=60)[0].split()[-1] == "True"
    assert not list(tmp_path.iterdir())


def test_what_is_not_ours_stays(tmp_path):
    named_alike = tmp_path / ".uncork-cache-of-mine"
    (named_alike / "0").mkdir(parents=True)
    (named_alike / "0" / "cache.index").write_text("a file of the user's")
    (named_alike / "made-by-uncork").write_text("by hand")
    (tmp_path / ".uncork-cache-link").symlink_to(named_alike)
    (tmp_path / ".uncork-cache-file").write_text("a file")
    before = sorted(tmp_path.rglob("*"))
    files = create_cache_files(str(tmp_path), 0)
    put_there = files.directory.parent / "notes.txt"
    put_there.write_text("somebody else's")
    remove_process_folder(str(tmp_path))
    assert put_there.read_text() == "somebody else's"
    put_there.unlink()
    create_cache_files(str(tmp_path), 0)
    remove_process_folder(str(tmp_path))
    left = {path for path in tmp_path.rglob("*") if put_there.parent not in (path, path.parent)}
    assert sorted(left) == before


@pytest.mark.parametrize("name", ["two words", "größe", "{a,b}", 'it\'s "quoted"'])
def test_any_name_will_do(tmp_path, name):
    (tmp_path / name).mkdir()
    assert create_cache_files(str(tmp_path / name), 0).directory.is_dir()
    remove_process_folder(str(tmp_path / name))


@pytest.mark.parametrize("name", ["[1]", "a*b", "what?", "a\\b", os.fsdecode(b"caf\xe9")])
def test_names_that_tensorflow_or_a_plan_cannot_hold_are_refused(tmp_path, name):
    (tmp_path / name).mkdir()
    with pytest.raises(EditRefused, match="its name") as refused:
        create_cache_files(str(tmp_path / name), 0)
    str(refused.value).encode()
    assert not list((tmp_path / name).iterdir())


def test_a_folder_that_is_not_there_is_told(tmp_path):
    with pytest.raises(EditRefused, match="No such file or directory"):
        check_cache_folder(str(tmp_path / "none"))
    (tmp_path / "file").write_text("")
    with pytest.raises(EditRefused, match="Not a directory"):
        check_cache_folder(str(tmp_path / "file"))


def test_no_room_is_told_and_leaves_nothing_that_stays(tmp_path):
    check_cache_folder(str(tmp_path), 1000)
    with pytest.raises(EditRefused, match=r"needs 1.1e\+06 GB") as refused:
        check_cache_folder(str(tmp_path), 10**15)
    assert "--disk-cache" in refused.value.remedy
    remove_process_folder(str(tmp_path))
    assert not list(tmp_path.iterdir())


def test_a_folder_that_was_removed_is_made_again(tmp_path):
    first = create_cache_files(str(tmp_path), 0).directory.parent
    remove_process_folder(str(tmp_path))
    assert not first.exists()
    assert create_cache_files(str(tmp_path), 0).directory.is_dir()
    remove_process_folder(str(tmp_path))


def test_files_without_a_lock_are_nobody_s(tmp_path):
    """The system gives the lock back, however its process ended."""
    left = create_cache_files(str(tmp_path), 0).directory.parent
    mark = (left / "made-by-uncork").read_bytes()
    remove_process_folder(str(tmp_path))
    dead = tmp_path / ".uncork-cache-dead"
    (dead / "7").mkdir(parents=True)
    (dead / "7" / "cache.data-00000-of-00001").write_text("x")
    (dead / "made-by-uncork").write_bytes(mark)
    check_cache_folder(str(tmp_path))
    assert not dead.exists()
    remove_process_folder(str(tmp_path))


def test_a_folder_without_a_mark_is_not_left(tmp_path, monkeypatch):
    """No file can be opened any more: nobody would ever take it for one of ours."""

    def full(*_, **__):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "open", full)
    with pytest.raises(EditRefused, match="Too many open files"):
        create_cache_files(str(tmp_path), 0)
    assert list(tmp_path.iterdir()) == []
