from __future__ import annotations

import os
from pathlib import Path

import pytest

from uncork.measure.machine import cold_reads as module
from uncork.measure.machine.cold_reads import ColdReads, measure_cold_reads

pytestmark = pytest.mark.skipif(
    not hasattr(os, "RWF_NOWAIT"), reason="this system cannot be asked what it holds in memory"
)


@pytest.fixture
def files(tmp_path):
    """Of which the system may forget what was written."""
    made = [tmp_path / f"{number}.bin" for number in range(100)]
    for path in made:
        path.write_bytes(os.urandom(20_000))
    os.sync()
    return [str(path) for path in made]


def forgets(paths) -> bool:
    """Files of a file system in memory are there always."""
    return measure_cold_reads(paths) is not None


def test_some_files_are_read_whole_and_left_as_they_were(files):
    if not forgets(files):
        pytest.skip("the system holds what was just written")
    before = [Path(path).stat() for path in files]
    found = measure_cold_reads(files)
    assert 0 < found.file_count <= 64
    assert found.total_bytes == found.file_count * 20_000
    assert found.wall_s > 0
    after = [Path(path).stat() for path in files]
    assert [(s.st_size, s.st_mtime_ns) for s in after] == [
        (s.st_size, s.st_mtime_ns) for s in before
    ]


def test_of_large_files_the_beginning_is_read(tmp_path, monkeypatch):
    path = tmp_path / "large.bin"
    path.write_bytes(os.urandom(100_000))
    os.sync()
    monkeypatch.setattr(module, "_BYTES", 40_000)
    monkeypatch.setattr(module, "_is_held", lambda fd: False)
    assert measure_cold_reads([str(path)]) == ColdReads(1, 40_000, pytest.approx(0, abs=60))


def waits(*_):
    raise BlockingIOError


def test_files_of_a_page_or_two_tell_nothing(tmp_path, monkeypatch):
    """Asking whether they are held has the system read them."""
    path = tmp_path / "small"
    path.write_bytes(os.urandom(5_000))
    monkeypatch.setattr(os, "preadv", waits)
    assert measure_cold_reads([str(path)]) is None
    path.write_bytes(os.urandom(50_000))
    with pytest.raises(BlockingIOError):
        os.preadv(0, [], 0)
    assert not module._is_held(os.open(path, os.O_RDONLY))


def test_of_many_large_files_some_are_enough(files, monkeypatch):
    monkeypatch.setattr(module, "_ALL_BYTES", 50_000)
    monkeypatch.setattr(module, "_is_held", lambda fd: False)
    assert measure_cold_reads(files).file_count == 2


def test_what_the_system_holds_tells_nothing(files, monkeypatch):
    monkeypatch.setattr(os, "posix_fadvise", lambda *_: None)
    for path in files:
        Path(path).read_bytes()
    assert measure_cold_reads(files) is None


def test_there_is_a_limit_of_time(files, monkeypatch):
    monkeypatch.setattr(module, "_is_held", lambda fd: False)
    assert measure_cold_reads(files, budget_s=-1.0) is None


@pytest.mark.parametrize("paths", [[], ["no such file"], ["\0"], [os.fsencode("/")]])
def test_what_is_no_file_tells_nothing(paths):
    assert measure_cold_reads(paths) is None


def test_a_system_that_cannot_be_asked_tells_nothing(files, monkeypatch):
    monkeypatch.delattr(os, "RWF_NOWAIT")
    assert measure_cold_reads(files) is None


def test_no_file_stays_open(files):
    before = opened()
    measure_cold_reads(files)
    assert opened() == before


def opened() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
