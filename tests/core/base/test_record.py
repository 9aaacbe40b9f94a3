from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from records import MACHINE, diagnosis, plan
from uncork.core.base.machine import Machine
from uncork.core.base.record import digest, from_json, replace, to_json, write_atomically
from uncork.core.documents.diagnosis import Diagnosis


def test_records_are_frozen():
    with pytest.raises(AttributeError):
        MACHINE.cpus = 64  # type: ignore[misc]


def test_replace_leaves_the_original():
    changed = replace(MACHINE, cpus=64)
    assert (MACHINE.cpus, changed.cpus) == (2.0, 64)
    assert MACHINE.differing_fields(changed) == ("cpus",)
    assert MACHINE.differing_fields(MACHINE) == ()


def test_replace_refuses_unknown_fields():
    with pytest.raises(TypeError, match="cores"):
        replace(MACHINE, cores=3)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"cpu": 3}, "cpu"),
        ({"cpus": "two"}, r"\$\.cpus"),
        ({"memory_bytes": 1.5}, r"\$\.memory_bytes"),
        ({"devices": [1]}, r"\$\.devices\[0\]"),
        ({"cpus": None}, r"\$\.cpus"),
    ],
)
def test_reading_names_the_bad_field(change, named):
    fields = {**json.loads(to_json(MACHINE)), **change}
    with pytest.raises(msgspec.ValidationError, match=named):
        from_json(json.dumps(fields).encode(), Machine)


def test_a_missing_field_is_named():
    fields = json.loads(to_json(MACHINE))
    del fields["cpu_model"]
    with pytest.raises(msgspec.ValidationError, match="cpu_model"):
        from_json(json.dumps(fields).encode(), Machine)


@pytest.mark.parametrize("record", [MACHINE, diagnosis(), plan()])
def test_json_and_back(record):
    text = to_json(record)
    read = from_json(text, type(record))
    assert read == record
    assert from_json(to_json(read), type(record)) == record
    assert text.endswith(b"\n")


def test_a_new_optional_field_may_be_absent_from_an_old_file():
    fields = json.loads(to_json(diagnosis()))
    for each in fields["workloads"]:
        del each["notes"], each["has_native_bfloat16"]
    (read,) = from_json(json.dumps(fields).encode(), Diagnosis).workloads
    assert (read.notes, read.has_native_bfloat16) == ((), None)


def test_digests_know_where_one_part_ends():
    assert digest("ab", "c") != digest("a", "bc") != digest("abc")
    assert digest(b"a") == digest("a")
    assert len(digest("")) == 16


def test_writing_makes_the_folder_and_leaves_nothing_else(tmp_path: Path):
    target = tmp_path / "new" / "plan.json"
    write_atomically(target, b"one")
    write_atomically(target, b"two")
    assert target.read_bytes() == b"two"
    assert [p.name for p in target.parent.iterdir()] == ["plan.json"]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()])
def test_a_full_disk_or_an_interrupt_leaves_the_old_file(tmp_path: Path, monkeypatch, error):
    target = tmp_path / "plan.json"
    target.write_bytes(b"old")

    def half(path: Path, content: bytes) -> int:
        with path.open("wb") as file:
            file.write(content[: len(content) // 2])
        raise error

    monkeypatch.setattr(Path, "write_bytes", half)
    with pytest.raises(type(error)):
        write_atomically(target, b"new content")
    assert target.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["plan.json"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_device_without_space_leaves_the_old_file(tmp_path: Path):
    target = tmp_path / "plan.json"
    target.write_bytes(b"old")
    (tmp_path / f".plan.json.{os.getpid()}.partial").symlink_to("/dev/full")
    with pytest.raises(OSError, match="space"):
        write_atomically(target, b"new")
    assert target.read_bytes() == b"old"
    assert Path("/dev/full").exists()


def test_the_nouns_need_neither_tensorflow_nor_numpy():
    code = (
        "import sys, pkgutil, importlib, uncork.core as core\n"
        "for module in pkgutil.walk_packages(core.__path__, 'uncork.core.'):\n"
        "    importlib.import_module(module.name)\n"
        "print(sorted({'tensorflow', 'keras', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
