"""Which of the user's lines take the time before a training begins, looked at from beside."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from types import FrameType
from typing import Final

from uncork.core.evidence.loop import StartupKind, StartupLine
from uncork.pycode.frames.stack import code_owner, format_location, iterate_frames

# Between two looks; each takes some microseconds.
_PAUSE_S: Final = 0.02
_IMPORTS: Final = "<frozen importlib"
# Shorter ones are of no interest.
_LEAST_S: Final = 0.2


class StartupSampler:
    """Seconds by line, of the thread that begins this.

    Attributes:
        lines: Those that took long, the longest first; then all imports together, and all other
            lines together, where these took long.

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
        self._import_s: Counter[tuple[str, int]] = Counter()
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
        seconds = Counter(self._seconds)
        lines = tuple(
            StartupLine(
                at=format_location(*line),
                seconds=line_s,
                is_in_framework=self._framework_s[line] > line_s / 2,
            )
            for line, line_s in seconds.most_common()
            if line_s >= _LEAST_S
        )
        others = Counter({line: s for line, s in seconds.items() if s < _LEAST_S})
        imports = _together("imports", Counter(self._import_s))
        rest = _together("other lines", others)
        return (*lines, *(each for each in (imports, rest) if each))

    def _look(self, watched: int) -> None:
        before = time.perf_counter()
        while not self._over.wait(_PAUSE_S):
            now = time.perf_counter()
            found = _users_line(sys._current_frames().get(watched))
            if found is not None:
                line, in_framework, imports = found
                seconds = self._import_s if imports else self._seconds
                seconds[line] += now - before  # type: ignore[assignment]
                self._framework_s[line] += in_framework * (now - before)  # type: ignore[assignment]
            before = now


def _together(kind: StartupKind, seconds: Counter[tuple[str, int]]) -> StartupLine | None:
    """All of these in one; None where they are short."""
    whole_s = sum(seconds.values())
    if whole_s < _LEAST_S:
        return None
    (longest, _), *_ = seconds.most_common(1)
    return StartupLine(at=format_location(*longest), seconds=whole_s, kind=kind)


def _users_line(frame: FrameType | None) -> tuple[tuple[str, int], bool, bool] | None:
    """The innermost of the user's lines, whether it calls TensorFlow or Keras, and imports.

    Of an import it is the line that asks for it. None where none is the user's, or Uncork itself
    is at work, which no other run of the script would be.
    """
    in_framework = imports = is_others = False
    for each in iterate_frames(frame):
        is_importing = each.f_code.co_filename.startswith(_IMPORTS)
        imports = imports or is_importing
        who = code_owner(each)
        if who == "user":
            return (each.f_code.co_filename, each.f_lineno), in_framework, imports
        if who == "uncork" and not is_others:
            return None
        is_others = is_others or not is_importing
        in_framework = in_framework or who in ("tensorflow", "keras")
    return None
