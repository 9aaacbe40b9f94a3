"""Does code do anything beyond computing: print, write files, start processes, use the network?

Python tells its audit hooks of all that leaves the process, and a hook stays for ever: there is
one, which looks up who is being watched. What is printed passes through stand-ins for the streams,
and what is logged past a stand-in for the method that hands it to whoever listens.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

_ALTERING: Final = (
    "os.chmod", "os.chown", "os.exec", "os.fork", "os.kill", "os.link", "os.mkdir",
    "os.posix_spawn", "os.putenv", "os.remove", "os.rename", "os.rmdir", "os.symlink", "os.system",
    "os.truncate", "os.unsetenv", "os.utime", "shutil.", "smtplib.", "socket.connect",
    "socket.send", "sqlite3.connect", "subprocess.Popen", "urllib.Request",
)  # fmt: skip
_WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

# What each watched thread was seen to do.
_seen: dict[int, list[str]] = {}
_forbidden: set[int] = set()
_hooked: list[bool] = []


class ForbiddenError(PermissionError):
    """Code that is only looked at must not do this.

    Who can do without takes it as any other refusal of the system: Python, when it cannot write
    the compiled form of a module that is imported meanwhile.
    """


@contextmanager
def outside(*, forbid: bool = False) -> Iterator[list[str]]:
    """Note what this thread does beyond computing; reading files is none of it.

    Args:
        forbid: What would write, send or start something raises :class:`ForbiddenError` instead,
            and what is printed or logged is not.

    Example:
        >>> with outside() as seen:
        ...     print("so far")
        so far
        >>> seen
        ['print']
    """
    if not _hooked:
        sys.addaudithook(_heard)
        _hooked.append(True)
    thread, streams = threading.get_ident(), (sys.stdout, sys.stderr)
    before, forbidden = _seen.get(thread), thread in _forbidden
    seen = _seen[thread] = []
    if forbid:
        _forbidden.add(thread)
    sys.stdout, sys.stderr = (_Stream(s, thread, seen, silent=forbid) for s in streams)
    hand_on = logging.Logger.callHandlers

    def told(logger: logging.Logger, record: logging.LogRecord) -> None:
        if threading.get_ident() == thread:
            seen.append("log")
            if forbid:
                return
        hand_on(logger, record)

    logging.Logger.callHandlers = told  # type: ignore[method-assign, assignment]
    try:
        yield seen
    finally:
        logging.Logger.callHandlers = hand_on  # type: ignore[method-assign]
        sys.stdout, sys.stderr = streams
        if not forbidden:
            _forbidden.discard(thread)
        del _seen[thread]
        if before is not None:  # looked at already, from further out
            before += seen
            _seen[thread] = before


def _heard(event: str, details: Any) -> None:
    if not _seen:
        return
    seen = _seen.get(threading.get_ident())
    if seen is None:
        return
    if event.startswith(_ALTERING) or (event == "open" and _is_writing(*details[1:])):
        seen.append(event)
        if threading.get_ident() in _forbidden:
            raise ForbiddenError(event)


def _is_writing(mode: Any, flags: Any) -> bool:
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return isinstance(flags, int) and bool(flags & _WRITING)


class _Stream:
    """Passes on all that is written; where the watched thread wrote it, says so."""

    def __init__(self, stream: Any, thread: int, seen: list[str], *, silent: bool) -> None:
        self._silent = silent
        self._stream = stream
        self._thread = thread
        self._noted = seen

    def write(self, text: str) -> Any:
        if threading.get_ident() == self._thread and self._noted[-1:] != ["print"]:
            self._noted.append("print")
        if self._silent and threading.get_ident() == self._thread:
            return len(text)
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
