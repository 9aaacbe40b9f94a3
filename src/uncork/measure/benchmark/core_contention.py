"""How much slower is a core while all others are busy, too?

Cores share power, memory and caches, and what a cloud machine calls a core is often one thread of
two on the same. So two of them do less than twice the work of one, and how much less decides what
work in parallel can win.

It is asked in CPU seconds: a thread that waits for a core, because something else works on this
machine in that moment, says nothing about the cores.
"""

from __future__ import annotations

import statistics
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from uncork.measure.benchmark.quiesce import wait_until_idle
from uncork.measure.machine.probe import usable_cpus

_ROUNDS: Final = 9
# More would ask the scheduler, not the cores.
_MOST: Final = 64
_TEXT: Final = bytes(range(256)) * 256
_NUMBERS: Final = 1 << 17


def busy_core_speed_ratio() -> float:
    """Speed of a core while all are busy, over that of one alone: 0 to 1.

    Example:
        >>> 0 < busy_core_speed_ratio() <= 1
        True
    """
    threads = min(_MOST, int(usable_cpus()))
    if threads < 2:
        return 1.0
    wait_until_idle()
    with ThreadPoolExecutor(threads) as pool:
        _took(pool, threads)
        # In turn, so that a change of the machine's speed meets both alike.
        found = [_took(pool, 1) / _took(pool, threads) for _ in range(_ROUNDS)]
    return min(1.0, statistics.median(found))


def _took(pool: ThreadPoolExecutor, threads: int) -> float:
    return statistics.mean(pool.map(_work, range(threads)))


def _work(_: int) -> float:
    """CPU seconds of work in caches and in memory, of which none holds the interpreter's lock."""
    import numpy as np  # noqa: PLC0415 - a script may set first how it is loaded

    numbers = np.linspace(1.0, 2.0, _NUMBERS)
    begin = time.thread_time()
    for _ in range(12):
        zlib.crc32(zlib.compress(_TEXT, 1))
        np.sqrt(numbers)
    return time.thread_time() - begin
