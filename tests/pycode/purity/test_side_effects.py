"""What leaves the process is seen, on the thread that is watched, and reading is none of it."""

from __future__ import annotations

import functools
import logging
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from uncork.pycode.purity.side_effects import ForbiddenError, note_side_effects


def writing(folder):
    (folder / "new").write_text("here")


def appending(folder):
    with (folder / "there").open("a") as file:
        file.write("more")


def writing_low_down(folder):
    os.close(os.open(folder / "new", os.O_WRONLY | os.O_CREAT))


def removing(folder):
    (folder / "there").unlink()


def starting(folder):
    subprocess.run([sys.executable, "-c", "pass"], cwd=folder, check=True)


def printing(folder):
    print(folder)


def logging_(folder):
    logging.getLogger("loading").warning(folder)


def complaining(folder):
    sys.stderr.write(str(folder))


def reading(folder):
    (folder / "there").read_text()
    list(folder.iterdir())
    os.close(os.open(folder / "there", os.O_RDONLY))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "there").write_text("so far")
    return tmp_path


@pytest.mark.parametrize(
    "does",
    [writing, appending, writing_low_down, removing, starting, printing, logging_, complaining],
)
def test_what_others_could_notice_is_seen(does, folder):
    with note_side_effects() as seen:
        does(folder)
    assert seen


def test_reading_is_nothing_to_others(folder):
    with note_side_effects() as seen:
        reading(folder)
    assert seen == []


def test_nothing_is_noted_afterwards_and_streams_are_given_back(folder):
    streams = sys.stdout, sys.stderr
    with pytest.raises(KeyError), note_side_effects() as seen:
        raise KeyError
    appending(folder)
    printing(folder)
    assert seen == []
    assert (sys.stdout, sys.stderr) == streams


def test_what_other_threads_do_is_their_own(folder):
    go = threading.Event()

    def act():
        go.wait(10)
        appending(folder)
        printing(folder)

    other = threading.Thread(target=act)
    other.start()
    with note_side_effects() as seen:
        go.set()
        other.join()
    assert seen == []


def test_threads_that_it_begins_count_as_its_own(folder):
    with note_side_effects() as seen, ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda act: act(folder), [appending, printing]))
    assert sorted(set(seen)) == ["open", "print"]


def test_a_thread_that_waits_for_work_is_no_longer_watched_then(folder):
    before = sys.stdout, threading.Thread.start
    pool = ThreadPoolExecutor(1)
    with note_side_effects() as seen:
        pool.submit(reading, folder).result()
    pool.submit(printing, folder).result()
    assert seen == []
    assert (sys.stdout, threading.Thread.start) == before
    pool.shutdown()


def test_no_thread_is_begun_where_that_is_forbidden(folder):
    with note_side_effects(forbid=True) as seen, pytest.raises(ForbiddenError):
        threading.Thread(target=appending, args=(folder,)).start()
    assert seen == ["thread"]
    assert (folder / "there").read_text() == "so far"


@pytest.mark.parametrize(
    "act", [lambda out: out.writelines(["one"]), lambda out: out.buffer.write(b"one")]
)
def test_other_ways_to_print_are_seen(act, capsys):
    with note_side_effects() as seen:
        act(sys.stdout)
    assert seen == ["print"]
    assert capsys.readouterr().out == "one"
    with note_side_effects(forbid=True):
        act(sys.stdout)
    assert capsys.readouterr().out == ""


def test_all_that_is_printed_arrives(capsys):
    with note_side_effects():
        print("one", "two")
    assert capsys.readouterr().out == "one two\n"


@pytest.mark.parametrize("act", [writing, appending, writing_low_down, removing, starting])
def test_what_is_forbidden_does_not_happen(act, folder):
    with note_side_effects(forbid=True), pytest.raises(ForbiddenError):
        act(folder)
    assert [(p.name, p.read_text()) for p in folder.iterdir()] == [("there", "so far")]
    act(folder)  # allowed again


@pytest.mark.parametrize("act", [printing, logging_, complaining])
def test_what_is_forbidden_is_not_said(act, folder, capsys):
    with note_side_effects(forbid=True) as seen:
        act(folder)
    assert seen
    assert capsys.readouterr() == ("", "")


def test_reading_is_allowed(folder):
    with note_side_effects(forbid=True) as seen:
        reading(folder)
    assert seen == []


def test_threads_that_are_watched_at_once_leave_the_streams_as_they_were():
    """One begins before another, and ends before it."""
    before = sys.stdout, sys.stderr, logging.Logger.callHandlers
    first, second = threading.Event(), threading.Event()
    seen = []

    def watched():
        with note_side_effects() as noted:
            first.set()
            second.wait(10)
            print("", end="")
            seen.append(list(noted))

    thread = threading.Thread(target=watched)
    thread.start()
    with note_side_effects() as noted:
        first.wait(10)
    assert noted == []
    second.set()
    thread.join()
    assert seen == [["print"]]
    assert (sys.stdout, sys.stderr, logging.Logger.callHandlers) == before


def test_who_exchanges_how_threads_begin_meanwhile_keeps_that(monkeypatch):
    """As tools that follow requests through threads do."""
    monkeypatch.setattr(threading.Thread, "start", threading.Thread.start)  # given back at the end
    with note_side_effects():
        threading.Thread.start = theirs = functools.partialmethod(threading.Thread.start)
    assert vars(threading.Thread)["start"] is theirs
    done = []
    thread = threading.Thread(target=lambda: done.append(1))
    thread.start()
    thread.join()
    assert done == [1]
