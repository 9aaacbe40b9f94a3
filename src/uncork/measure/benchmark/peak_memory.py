"""The most memory that a process takes while something runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

_STATUS: Final = Path("/proc/self/status")
# Writing this lets Linux forget the peak so far.
_FORGET: Final = Path("/proc/self/clear_refs")
_PEAK: Final = "VmHWM:"


@dataclass
class PeakMemory:
    """What a block took at its height.

    Attributes:
        added_bytes: Beyond what was taken when it began; 0 until it ends.
        total_bytes: All that was taken by the process.
    """

    added_bytes: int = 0
    total_bytes: int = 0


@contextmanager
def measure_peak_memory() -> Iterator[PeakMemory]:
    """Watch the memory of this process; where it keeps no peak, what is taken at the end counts.

    Example:
        >>> with measure_peak_memory() as peak:
        ...     _ = bytearray(1 << 26)
        >>> peak.added_bytes >= 0
        True
    """
    found, before = PeakMemory(), _taken()
    forgotten = _forget()
    try:
        yield found
    finally:
        found.total_bytes = _highest() if forgotten else _taken()
        found.added_bytes = max(0, found.total_bytes - before)


def _forget() -> bool:
    """Whether Linux keeps a peak from here on; else it is that of the whole process."""
    try:
        _FORGET.write_text("5")
    except OSError:
        return False
    return True


def _taken() -> int:
    return int(psutil.Process().memory_info().rss)


def _highest() -> int:
    with suppress(OSError, ValueError, StopIteration):
        lines = _STATUS.read_text().splitlines()
        told = next(line for line in lines if line.startswith(_PEAK))
        return int(told.split()[1]) << 10
    return _taken()
