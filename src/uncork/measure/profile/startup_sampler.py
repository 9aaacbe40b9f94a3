"""Which of the user's lines take the time before a training begins, looked at from beside."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from types import FrameType
from typing import Final

from uncork.core.evidence.loop import StartupLine
from uncork.pycode.frames.stack import code_owner, format_location, iterate_frames

# Between two looks; each takes some microseconds.
_PAUSE_S: Final = 0.02
_IMPORTS: Final = "<frozen importlib"
# Shorter ones are of no interest.
_LEAST_S: Final = 0.2


class StartupSampler:
    """Seconds by line, of the thread that begins this; imports are left out.

    Attributes:
        lines: Those that took long, the longest first.

    Example:
        >>> start = StartupSampler()
        >>> start.start()
        >>> start.stop()
        >>> start.lines
        ()
    """

    def __init__(self) -> None:
        self.lines: tuple[StartupLine, ...] = ()
        self._seconds: Counter[tuple[str, int]] = Counter()
        self._framework_s: Counter[tuple[str, int]] = Counter()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """From now on, until the end."""
        watched = threading.get_ident()
        self._thread = threading.Thread(
            target=self._look, args=(watched,), name="uncork-start", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """The training begins; a second call does nothing."""
        if self._thread is None:
            return
        self._over.set()
        self._thread.join()
        self._thread = None
        self.lines = self.current_lines()

    def current_lines(self) -> tuple[StartupLine, ...]:
        """Those lines of which something may still be to come."""
        return tuple(
            StartupLine(
                at=format_location(*line),
                seconds=seconds,
                is_in_framework=self._framework_s[line] > seconds / 2,
            )
            for line, seconds in Counter(self._seconds).most_common()
            if seconds >= _LEAST_S
        )

    def _look(self, watched: int) -> None:
        before = time.perf_counter()
        while not self._over.wait(_PAUSE_S):
            now = time.perf_counter()
            found = _users_line(sys._current_frames().get(watched))
            if found is not None:
                line, in_framework = found
                self._seconds[line] += now - before  # type: ignore[assignment]
                self._framework_s[line] += in_framework * (now - before)  # type: ignore[assignment]
            before = now


def _users_line(frame: FrameType | None) -> tuple[tuple[str, int], bool] | None:
    """The innermost of the user's lines, and whether it calls TensorFlow or Keras.

    None where it imports something.
    """
    in_framework = False
    for each in iterate_frames(frame):
        if each.f_code.co_filename.startswith(_IMPORTS):
            return None
        who = code_owner(each)
        if who == "user":
            return (each.f_code.co_filename, each.f_lineno), in_framework
        in_framework = in_framework or who in ("tensorflow", "keras")
    return None
