"""Quiet before a block: what ran before it may still be at work in threads of its own."""

from __future__ import annotations

import time
from typing import Final

# Seconds of one look, and of all of them: a script may keep threads busy for ever.
_LOOK_S: Final = 0.02
_MOST_S: Final = 0.6
# Of one core, in a process that waits.
_QUIET: Final = 0.3


def wait_until_idle() -> float:
    """Wait until hardly any thread of this process computes; seconds it took.

    An iterator that was left goes on for a while: it ends the calls that it began, and gives back
    what it had prepared, gigabytes perhaps. That belongs to whoever left it.

    Example:
        >>> wait_until_idle() < 5.0
        True
    """
    begin = time.perf_counter()
    while True:
        cpu, last = time.process_time(), time.perf_counter()
        time.sleep(_LOOK_S)
        now = time.perf_counter()
        if time.process_time() - cpu < _QUIET * (now - last) or now - begin > _MOST_S:
            return now - begin
