"""The C library's allocator: whose it is, and that it keep what the process frees."""

from __future__ import annotations

import ctypes
import os
import platform
from typing import Final

from uncork.core.base.machine import DEFAULT_ALLOCATOR

# Names and values of glibc's mallopt. One arena: those of other threads give memory back whatever
# they are told, and have no room for large pieces. No mapping of its own for a large piece, and
# nothing at the top of the heap given back.
_SETTINGS: Final = {"M_ARENA_MAX": (-8, 1), "M_MMAP_MAX": (-4, 0), "M_TRIM_THRESHOLD": (-1, -1)}
# The same in the environment of a process that is started.
_STARTED_SO: Final = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "-1",
}
# Environment variables that say the like, and libraries that take the place of glibc's.
_CHOSEN: Final = (
    "MALLOC_ARENA_MAX",
    "MALLOC_MMAP_MAX_",
    "MALLOC_MMAP_THRESHOLD_",
    "MALLOC_TOP_PAD_",
    "MALLOC_TRIM_THRESHOLD_",
)
_OTHERS: Final = ("jemalloc", "mimalloc", "tcmalloc", "tbbmalloc", "hoard", "snmalloc")
_kept: list[bool] = []


def allocator() -> str:
    """Which one this process has: ``glibc`` as it comes, or another in words; ``""`` if unknown.

    Example:
        >>> isinstance(allocator(), str)
        True
    """
    preloaded = os.environ.get("LD_PRELOAD", "")
    other = next((name for name in _OTHERS if name in preloaded), None)
    if other or platform.libc_ver()[0] != "glibc":
        return other or ""
    chosen = [name for name in _CHOSEN if name in os.environ]
    if "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", ""):
        chosen.append("GLIBC_TUNABLES")
    return f"{DEFAULT_ALLOCATOR}, set by {chosen[0]}" if chosen else DEFAULT_ALLOCATOR


def keep_freed_memory() -> bool:
    """Let this process keep what it frees, for what it asks for next. To be called first of all.

    Threads that have asked for memory before go on as they were.

    Returns:
        Whether it does.
    """
    if not is_keeping_freed_memory() and allocator() == DEFAULT_ALLOCATOR:
        set_to = getattr(ctypes.CDLL(None), "mallopt", None)
        _kept.append(set_to is not None and all([set_to(*s) == 1 for s in _SETTINGS.values()]))
    return is_keeping_freed_memory()


def is_keeping_freed_memory() -> bool:
    """Whether :func:`keep_freed_memory` is in force here, or the process was started like that."""
    started_so = all(os.environ.get(name) == value for name, value in _STARTED_SO.items())
    return any(_kept) or (started_so and platform.libc_ver()[0] == "glibc")
