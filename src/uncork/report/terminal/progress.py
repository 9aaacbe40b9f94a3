"""What is going on, one line an event, on standard error: standard output is the script's."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from typing import Final, TextIO

from uncork.core.base.journal import Event

_INDENT: Final = {
    "phase": "",
    "measured": "  ",
    "step": "  ",
    "note": "  ",
    "error": "  ",
    "done": "",
}


class Progress:
    """Prints events with the seconds since the start.

    Args:
        stream: Standard error unless given.
        quiet: Print nothing.
    """

    def __init__(self, stream: TextIO | None = None, *, quiet: bool = False) -> None:
        self._stream = stream or sys.stderr
        self._quiet = quiet
        self._begin = time.monotonic()

    def __call__(self, event: Event) -> None:
        """Print one event."""
        if self._quiet:
            return
        speed = "" if event.samples_per_s is None else f": {event.samples_per_s:,.0f} samples/s"
        passed = time.monotonic() - self._begin
        with suppress(OSError):  # a terminal that was closed is no reason to lose what was found
            self._stream.write(f"[{passed:4.0f} s] {_INDENT[event.kind]}{event.text}{speed}\n")
            self._stream.flush()
