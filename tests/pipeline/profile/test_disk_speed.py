"""How fast a folder is: measured with TensorFlow's own files, and nothing stays there."""

from __future__ import annotations

import os
from types import SimpleNamespace

from uncork.core.base.record import from_json, to_json
from uncork.core.evidence.storage import Disk
from uncork.pipeline.ir.cache_files import leave, new_files
from uncork.pipeline.profile import disk_speed
from uncork.pipeline.profile.disk_speed import disk_at


def test_reading_and_writing_take_time_for_each_byte(tmp_path):
    found = disk_at(str(tmp_path))
    assert found.folder == str(tmp_path)
    assert not found.refused
    assert found.free_bytes > 0
    assert found.read.wall_s(10**6) > found.read.wall_s(1000) > 0
    assert found.write.wall_s(10**6) > 0
    assert found.read.cpu_s(10**6) > 0
    assert from_json(to_json(found), Disk) == found
    leave(str(tmp_path))
    assert not list(tmp_path.iterdir())


def test_a_folder_in_memory_is_no_disk(tmp_path, monkeypatch):
    mounted = [partition("/", "ext4"), partition(str(tmp_path), "tmpfs")]
    monkeypatch.setattr("psutil.disk_partitions", lambda all: mounted)
    assert "would lie in memory" in disk_at(str(tmp_path / "photos")).refused
    mounted.append(partition(str(tmp_path / "photos"), "ext4"))
    assert "No such file" in disk_at(str(tmp_path / "photos")).refused


def partition(mountpoint, fstype):
    return SimpleNamespace(mountpoint=mountpoint, fstype=fstype)


def test_a_relative_folder_is_known_by_its_whole_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert disk_at("none").folder == str(tmp_path / "none")


def test_no_room_to_measure_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 1000}))
    assert "needs 0.166 GB" in disk_at(str(tmp_path)).refused
    leave(str(tmp_path))


def test_files_are_written_before_the_system_forgets_them(tmp_path, monkeypatch):
    calls = []
    files = new_files(str(tmp_path), 0)
    (files.directory / "cache.index").write_text("x")
    monkeypatch.setattr(os, "fsync", lambda _: calls.append("fsync"))
    monkeypatch.setattr(
        os,
        "posix_fadvise",
        lambda _, start, length, advice: calls.append((start, length, advice)),
        raising=False,
    )
    monkeypatch.setattr(os, "POSIX_FADV_DONTNEED", 4, raising=False)
    files.leave_memory()
    assert calls == ["fsync", (0, 0, 4)]
    leave(str(tmp_path))


def test_a_link_into_memory_is_no_disk(tmp_path, monkeypatch):
    there = tmp_path / "ram"
    there.mkdir()
    (tmp_path / "scratch").symlink_to(there)
    monkeypatch.setattr(disk_speed, "_is_memory", lambda place: place == str(there.resolve()))
    assert "in memory" in disk_speed.disk_at(str(tmp_path / "scratch")).refused
