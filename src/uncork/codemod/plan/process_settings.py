"""``mallopt`` at the top: what the plan sets before the script begins."""

from __future__ import annotations

from typing import Final

from uncork.core.edit import KeepFreedMemory
from uncork.core.errors import EditRefused
from uncork.core.plan import Plan
from uncork.source.changes import Changes, Insertion
from uncork.source.tree import Source

# Whoever runs the script elsewhere may have another C library.
_LINES: Final = (
    "import ctypes",
    "import platform",
    """
if platform.libc_ver()[0] == "glibc":
    libc = ctypes.CDLL(None)
    libc.mallopt(-8, 1)  # M_ARENA_MAX: one, which all threads share
    libc.mallopt(-4, 0)  # M_MMAP_MAX: large pieces come from it, too
    libc.mallopt(-1, -1)  # M_TRIM_THRESHOLD: what is freed is kept""",
)


def keep_freed_memory(source: Source, plan: Plan, edit: KeepFreedMemory) -> Changes:
    """A few lines above all imports: threads keep the arena that they begin with.

    Raises:
        EditRefused: The script sets its allocator itself.
    """
    del plan, edit
    if "mallopt" in source.module.code:
        raise EditRefused("the script sets its allocator itself")
    return [Insertion(source.first, _LINES, apart=True)]
