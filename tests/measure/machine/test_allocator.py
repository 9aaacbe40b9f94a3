"""What a process of its own does with memory: an allocator cannot be set back."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from uncork.core.base.machine import DEFAULT_ALLOCATOR
from uncork.measure.machine.allocator import allocator

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")

ASKED = """
import sys, threading
from uncork.measure.machine.allocator import allocator, is_keeping_freed_memory, keep_freed_memory
from uncork.measure.benchmark.page_faults import take_memory_snapshot

if sys.argv[1] == "kept":
    assert keep_freed_memory() and keep_freed_memory()
print(allocator(), is_keeping_freed_memory())

def work():
    for _ in range(3):
        bytearray(b"1") * (40 << 20)
    before = take_memory_snapshot().page_faults
    for _ in range(5):
        bytearray(b"1") * (40 << 20)
    print(take_memory_snapshot().page_faults - before)

worker = threading.Thread(target=work)
worker.start()
worker.join()
"""


def asked(which: str) -> tuple[str, int]:
    command = [sys.executable, "-c", ASKED, which]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told, faults = done.stdout.splitlines()
    return told, int(faults)


def test_what_a_thread_frees_is_kept():
    assert asked("plain")[0] == f"{DEFAULT_ALLOCATOR} False"
    told, faults = asked("kept")
    assert told == f"{DEFAULT_ALLOCATOR} True"
    # Of 5 times 10,240 pages, or where pages are huge, of 5 times 20.
    assert faults < asked("plain")[1] / 4


def test_a_process_that_was_started_to_keep_it_does(monkeypatch):
    settings = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "-1"}
    otherwise = asked("plain")[1]
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    told, faults = asked("plain")
    assert told == f"{DEFAULT_ALLOCATOR}, set by MALLOC_ARENA_MAX True"
    assert faults < otherwise / 4
    assert asked("kept")[0] == told


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("LD_PRELOAD", "/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4", "tcmalloc"),
        ("MALLOC_ARENA_MAX", "2", "glibc, set by MALLOC_ARENA_MAX"),
        ("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1", "glibc, set by GLIBC_TUNABLES"),
        ("GLIBC_TUNABLES", "glibc.cpu.hwcaps=-AVX512F", DEFAULT_ALLOCATOR),
    ],
)
def test_an_allocator_that_somebody_has_chosen_is_told_apart(monkeypatch, name, value, found):
    monkeypatch.setenv(name, value)
    assert allocator() == found


def test_another_c_library_is_not_known(monkeypatch):
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    assert allocator() == ""
