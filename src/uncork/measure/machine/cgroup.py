"""What the control groups of this process allow: processors and memory, of both versions of them.

The group of a process lies somewhere below a root, and each group above it limits it, too. Inside a
container the root is its own group, and what the process is told of its place means nothing there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Final

CGROUP_ROOT: Final = Path("/sys/fs/cgroup")
CGROUP_MEMBERSHIP: Final = Path("/proc/self/cgroup")
# Version 1 writes "no limit" as a huge number of bytes, close to 2**63.
NO_LIMIT_BYTES: Final = 1 << 60
# What the system takes back from files whenever memory is asked for, as either version calls it.
_OF_FILES: Final = {"inactive_file", "total_inactive_file"}


def cpu_quota(root: Path = CGROUP_ROOT) -> float:
    """Cores whose time the process may take; infinite where nothing limits it."""
    found = [math.inf]
    for folder in _folders(root, ""):
        most, period, *_ = (_read(folder / "cpu.max") or "max 100000").split()
        found.append(math.inf if most == "max" else int(most) / int(period))
    for folder in _folders(root, "cpu"):
        most = _read(folder / "cpu.cfs_quota_us") or "-1"
        if int(most) > 0:
            found.append(int(most) / int(_read(folder / "cpu.cfs_period_us") or 100_000))
    return min(found)


def memory_limit_bytes(root: Path = CGROUP_ROOT) -> int:
    """Bytes that the process may take together with all others of its group."""
    return min((limit for limit, _ in _memory(root)), default=NO_LIMIT_BYTES)


def free_memory_bytes(root: Path = CGROUP_ROOT) -> int:
    """Bytes that it may still take. What only keeps files in memory makes room by itself."""
    return min((limit - taken for limit, taken in _memory(root)), default=NO_LIMIT_BYTES)


def _memory(root: Path) -> Iterator[tuple[int, int]]:
    """Limit and use of each group."""
    versions = {"": ("memory.max", "memory.current"),
                "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes")}  # fmt: skip
    for controller, (limit, used) in versions.items():
        for folder in _folders(root, controller):
            most = _read(folder / limit) or "max"
            if most != "max":
                taken = int(_read(folder / used) or 0) - _of_files(folder)
                yield min(int(most), NO_LIMIT_BYTES), max(0, taken)


def _of_files(folder: Path) -> int:
    pairs = (line.split() for line in _read(folder / "memory.stat").splitlines())
    return max((int(n) for name, n in pairs if name in _OF_FILES), default=0)


def _folders(root: Path, controller: str) -> Iterator[Path]:
    """The group of this process and those above it, as far as they can be seen from here.

    Args:
        root: Of all groups.
        controller: Of version 1; ``""`` for version 2, which has them all in one place.
    """
    top = root / controller
    own = _own(controller)
    while own and own != Path():
        if (top / own).is_dir():
            yield top / own
        own = own.parent
    yield top


def _own(controller: str) -> Path:
    """Where the process is, below the root."""
    for line in _read(CGROUP_MEMBERSHIP).splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            return Path(path.lstrip("/"))
    return Path()


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
