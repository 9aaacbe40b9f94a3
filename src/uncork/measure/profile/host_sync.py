"""How long Python waits for values: a tensor is read, and the device has not computed it yet.

Where ops run asynchronously (on accelerators, or where a script asks for it) Python could prepare
the next step meanwhile. Where they run at once there is nothing to wait for.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from uncork.compat.tf.eager_tensors import Reader, reading_through
from uncork.pycode.frames.stack import format_location, user_frame

# What reading a value takes where it is there already.
_AT_ONCE_S: Final = 50e-6


class HostWaits:
    """Seconds that the main thread waited, and the user's line that read what it waited for."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._lines: Counter[str] = Counter()

    @property
    def at(self) -> str | None:
        """Where it waited longest."""
        return max(self._lines, key=self._lines.__getitem__, default=None)

    def add(self, seconds: float, frame: Any) -> None:
        """Count one."""
        if seconds < _AT_ONCE_S or threading.current_thread() is not threading.main_thread():
            return
        self.seconds += seconds
        users = user_frame(frame)
        if users is not None:
            line = format_location(users.f_code.co_filename, users.f_lineno)
            self._lines[line] += seconds  # type: ignore[assignment]


@contextmanager
def observe_host_waits() -> Iterator[HostWaits]:
    """Count every value that Python reads inside the block.

    Example:
        >>> import tensorflow as tf
        >>> with observe_host_waits() as found:
        ...     value = float(tf.constant(1.0))
        >>> value, found.seconds < 0.1
        (1.0, True)
    """
    found = HostWaits()

    def timing(read: Reader) -> Reader:
        def timed(tensor: Any) -> Any:
            begin = time.perf_counter()
            try:
                return read(tensor)
            finally:
                found.add(time.perf_counter() - begin, sys._getframe())

        return timed

    with reading_through(timing):
        yield found
