"""What it costs a process to be given memory anew: minor page faults, counted and timed.

Memory that was given back to the operating system and is asked for again comes page by page, each
filled with zeros when it is touched first.
"""

from __future__ import annotations

import functools
import mmap
import time
from dataclasses import dataclass
from typing import Final

import psutil

try:
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]

_PROBED: Final = 16 << 20
_ROUNDS: Final = 3


@dataclass(frozen=True)
class MemorySnapshot:
    """What a process was given so far.

    Attributes:
        page_faults: How often it touched a page that was not there.
        resident_bytes: Of what it has now.
        system_s: CPU seconds that the operating system worked for it.
    """

    page_faults: int
    resident_bytes: int
    system_s: float


def take_memory_snapshot() -> MemorySnapshot | None:
    """Of this process; None where nobody counts.

    Example:
        >>> found = take_memory_snapshot()
        >>> found is None or found.resident_bytes > 0
        True
    """
    if resource is None:
        return None
    used = resource.getrusage(resource.RUSAGE_SELF)
    held = int(psutil.Process().memory_info().rss)
    return MemorySnapshot(int(used.ru_minflt), held, used.ru_stime)


def page_fault_s_since(start: MemorySnapshot | None) -> float:
    """CPU seconds in which this process was given back what it had had before; 0 if unknown.

    What it has beyond that time is not counted: it had to be given.

    Example:
        >>> page_fault_s_since(take_memory_snapshot()) >= 0
        True
    """
    now = take_memory_snapshot()
    if start is None or now is None or now.page_faults == start.page_faults:
        return 0.0
    fault_s, fault_bytes = _fault()
    anew = (
        now.page_faults
        - start.page_faults
        - max(0, now.resident_bytes - start.resident_bytes) / fault_bytes
    )
    return min(max(0.0, anew) * fault_s, now.system_s - start.system_s)


@functools.cache
def _fault() -> tuple[float, float]:
    """CPU seconds and bytes of one, as new memory is touched by a single thread.

    Threads that touch some at the same time wait for one another: then it takes more than this.
    """
    return min(_touched() for _ in range(_ROUNDS))


def _touched() -> tuple[float, float]:
    assert resource is not None
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    with mmap.mmap(-1, _PROBED, flags=private) as pages:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        new_s = _touch(pages)
        faults = max(1, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
        return max(0.0, new_s - _touch(pages)) / faults, _PROBED / faults


def _touch(pages: mmap.mmap) -> float:
    begin = time.thread_time()
    for at in range(0, _PROBED, mmap.PAGESIZE):
        pages[at] = 1
    return time.thread_time() - begin
