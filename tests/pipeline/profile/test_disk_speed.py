"""How fast a folder is: measured with TensorFlow's own files, and nothing stays there."""

from __future__ import annotations

import os
from types import SimpleNamespace

from uncork.core.base.record import from_json, to_json
from uncork.core.evidence.storage import CacheFolder
from uncork.pipeline.ir.cache_files import create_cache_files, remove_process_folder
from uncork.pipeline.profile import disk_speed
from uncork.pipeline.profile.disk_speed import measure_cache_folder


def test_reading_and_writing_take_time_for_each_byte(tmp_path):
    found = measure_cache_folder(str(tmp_path))
    assert found.path == str(tmp_path)
    assert not found.refusal_reason
    assert found.free_bytes > 0
    assert found.read_cost.wall_s(10**6) > found.read_cost.wall_s(1000) > 0
    assert found.write_cost.wall_s(10**6) > 0
    assert found.read_cost.cpu_s(10**6) > 0
    assert from_json(to_json(found), CacheFolder) == found
    remove_process_folder(str(tmp_path))
    assert not list(tmp_path.iterdir())


def test_a_folder_in_memory_is_no_disk(tmp_path, monkeypatch):
    mounted = [partition("/", "ext4"), partition(str(tmp_path), "tmpfs")]
    monkeypatch.setattr("psutil.disk_partitions", lambda all: mounted)
    assert "would be in memory" in measure_cache_folder(str(tmp_path / "photos")).refusal_reason
    mounted.append(partition(str(tmp_path / "photos"), "ext4"))
    assert "No such file" in measure_cache_folder(str(tmp_path / "photos")).refusal_reason


def partition(mountpoint, fstype):
    return SimpleNamespace(mountpoint=mountpoint, fstype=fstype)


def test_a_relative_folder_is_known_by_its_whole_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert measure_cache_folder("none").path == str(tmp_path / "none")


def test_no_room_to_measure_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 1000}))
    assert "needs 0.166 GB" in measure_cache_folder(str(tmp_path)).refusal_reason
    remove_process_folder(str(tmp_path))


def test_files_are_written_before_the_system_forgets_them(tmp_path, monkeypatch):
    calls = []
    files = create_cache_files(str(tmp_path), 0)
    (files.directory / "cache.index").write_text("x")
    monkeypatch.setattr(os, "fsync", lambda _: calls.append("fsync"))
    monkeypatch.setattr(
        os,
        "posix_fadvise",
        lambda _, start, length, advice: calls.append((start, length, advice)),
        raising=False,
    )
    monkeypatch.setattr(os, "POSIX_FADV_DONTNEED", 4, raising=False)
    files.drop_page_cache()
    assert calls == ["fsync", (0, 0, 4)]
    remove_process_folder(str(tmp_path))


def test_a_link_into_memory_is_no_disk(tmp_path, monkeypatch):
    there = tmp_path / "ram"
    there.mkdir()
    (tmp_path / "scratch").symlink_to(there)
    monkeypatch.setattr(disk_speed, "_is_memory", lambda place: place == str(there.resolve()))
    assert "in memory" in disk_speed.measure_cache_folder(str(tmp_path / "scratch")).refusal_reason
