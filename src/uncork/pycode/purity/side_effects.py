"""Does code do anything beyond computing: print, write files, start processes, use the network?

Python tells its audit hooks of all that leaves the process, and a hook stays for ever: there is
one, which looks up who is being watched. What is printed passes through stand-ins for the streams,
and what is logged past a stand-in for the method that hands it to whoever listens: both are there
as long as any thread is watched.
"""

from __future__ import annotations

import functools
import io
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

_ALTERING: Final = (
    "os.chmod", "os.chown", "os.exec", "os.fork", "os.kill", "os.link", "os.mkdir",
    "os.posix_spawn", "os.putenv", "os.remove", "os.rename", "os.rmdir", "os.symlink", "os.system",
    "os.truncate", "os.unsetenv", "os.utime", "shutil.", "smtplib.", "socket.connect",
    "socket.send", "sqlite3.connect", "subprocess.Popen", "urllib.Request",
)  # fmt: skip
_AUTOGRAPH: Final = "__autograph_generated_file"
_WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

# What each watched thread was seen to do.
_seen: dict[int, list[str]] = {}
_forbidden: set[int] = set()
_hooked: list[bool] = []
_changing = threading.Lock()
_undo: list[Callable[[], None]] = []


class ForbiddenError(PermissionError):
    """Code that is only looked at must not do this.

    Who can do without takes it as any other refusal of the system: Python, when it cannot write
    the compiled form of a module that is imported meanwhile.
    """


@contextmanager
def note_side_effects(*, forbid: bool = False) -> Iterator[list[str]]:
    """Note what this thread does beyond computing; reading files is none of it.

    Args:
        forbid: What would write, send or start something raises :class:`ForbiddenError` instead,
            and what is printed or logged is not.

    Example:
        >>> with note_side_effects() as seen:
        ...     print("so far")
        so far
        >>> seen
        ['print']
    """
    if not _hooked:
        sys.addaudithook(_heard)
        _hooked.append(True)
    thread = threading.get_ident()
    before, forbidden = _seen.get(thread), thread in _forbidden
    seen: list[str] = []
    with _changing:
        if not _seen:
            _stand_in()
        _seen[thread] = seen
    if forbid:
        _forbidden.add(thread)
    try:
        yield seen
    finally:
        if not forbidden:
            _forbidden.discard(thread)
        with _changing:
            # With the threads that were begun meanwhile: some wait for work as long as they can.
            for each in [each for each, noted in _seen.items() if noted is seen]:
                del _seen[each]
            if before is not None:  # looked at already, from further out
                before += seen
                _seen[thread] = before
            while not _seen and _undo:
                _undo.pop()()


def _stand_in() -> None:
    """For the streams and for what hands on logs, until they are undone."""
    hand_on = logging.Logger.callHandlers

    def told(logger: logging.Logger, record: logging.LogRecord) -> None:
        thread = threading.get_ident()
        if thread in _seen:
            _seen[thread].append("log")
            if thread in _forbidden:
                return
        hand_on(logger, record)

    logging.Logger.callHandlers = told  # type: ignore[method-assign, assignment]
    _undo.append(lambda: setattr(logging.Logger, "callHandlers", hand_on))
    _watch_begun_threads()
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        ours = _Stream(stream)
        setattr(sys, name, ours)
        _undo.append(functools.partial(_give_back, sys, name, ours, stream))


def _watch_begun_threads() -> None:
    """What a thread does belongs to the one that began it, if that is watched."""
    start = threading.Thread.start

    def begun(thread: threading.Thread) -> None:
        seen = _seen.get(threading.get_ident())
        if seen is not None and threading.get_ident() in _forbidden:
            seen.append("thread")
            raise ForbiddenError("thread")
        if seen is not None:
            thread.run = functools.partial(_run_watched, thread.run, seen)  # type: ignore[method-assign]
        start(thread)

    threading.Thread.start = begun  # type: ignore[method-assign, assignment]
    _undo.append(functools.partial(_give_back, threading.Thread, "start", begun, start))


def _run_watched(run: Callable[[], None], seen: list[str]) -> None:
    thread = threading.get_ident()
    with _changing:
        if any(noted is seen for noted in _seen.values()):  # the watch is not over yet
            _seen[thread] = seen
    try:
        run()
    finally:
        with _changing:
            if _seen.get(thread) is seen:
                del _seen[thread]


def _give_back(holder: Any, name: str, ours: Any, before: Any) -> None:
    """Unless somebody has put another one there meanwhile."""
    if getattr(holder, name) is ours:
        setattr(holder, name, before)


def _heard(event: str, details: Any) -> None:
    if not _seen:
        return
    seen = _seen.get(threading.get_ident())
    if seen is None:
        return
    if event.startswith(_ALTERING) or (event == "open" and _is_writing(*details)):
        seen.append(event)
        if threading.get_ident() in _forbidden:
            raise ForbiddenError(event)


def _is_writing(path: Any, mode: Any, flags: Any) -> bool:
    if isinstance(path, str) and _is_of_autograph(path):
        return False
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return isinstance(flags, int) and bool(flags & _WRITING)


def _is_of_autograph(path: str) -> bool:
    """Code that TensorFlow is about to trace is written down first, by Python's ``tempfile``.

    That opens the folder, so to speak, and then the file in it.
    """
    return os.path.basename(path).startswith(_AUTOGRAPH) or os.path.isdir(path)  # noqa: PTH112, PTH119


class _Stream:
    """Passes on all that is written; where a thread that is watched wrote it, notes that."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> Any:
        thread = threading.get_ident()
        seen = _seen.get(thread)
        if seen is not None and seen[-1:] != ["print"]:
            seen.append("print")
        return len(text) if thread in _forbidden else self._stream.write(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    @property
    def buffer(self) -> Any:
        """Bytes that are written there are printed, too."""
        self.write("")
        return io.BytesIO() if threading.get_ident() in _forbidden else self._stream.buffer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
