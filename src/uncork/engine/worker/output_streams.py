"""What a worker process and its script write: to the terminal, or to the log of TensorFlow.

TensorFlow's C++ code, XLA and the profiler write dozens of lines to file descriptor 2. Python's
``sys.stderr`` writes there, too: tracebacks, warnings, logging, progress bars. The worker process
separates the two. Descriptor 2 becomes the log, and ``sys.stderr`` writes to a copy of what
descriptor 2 was.

What a script starts with :mod:`subprocess` writes its errors where ``sys.stderr`` does, and so does
:mod:`faulthandler`. Everything else that is below Python goes to the log: ``tf.print``,
``os.write(2, ...)``, ``os.system``, and processes that ``multiprocessing`` spawns, not forks.
"""

from __future__ import annotations

import functools
import io
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Final, TextIO

# To the start of the line, and erase it.
_ERASE_LINE: Final = "\r\x1b[2K"
# Of ``stderr`` among the arguments of ``subprocess.Popen``.
_STDERR_POSITION: Final = 5


class TerminalStream(io.TextIOWrapper):
    """Text on a terminal where the parent process draws its live line: erases it first.

    Attributes:
        is_at_line_start: The last text on the terminal, of whichever stream, ended its line.
    """

    is_at_line_start: ClassVar[bool] = True

    def write(self, text: str, /) -> int:
        """Write, on a line without the live line."""
        if text and TerminalStream.is_at_line_start:
            super().write(_ERASE_LINE)
        if text:
            TerminalStream.is_at_line_start = text.endswith("\n")
        return super().write(text)


def separate_native_log(path: Path) -> None:
    """Let descriptor 2 write to a log, and ``sys.stderr`` to where it wrote before.

    Where that is impossible (no descriptor 2, no space), everything stays as it was.

    Args:
        path: The log; appended to.
    """
    with suppress(OSError, ValueError):
        sys.stderr.flush()
        log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        kept = os.dup(2)  # not inherited by what the script starts
        os.dup2(log, 2)
        os.close(log)
        made = _stream_like(sys.stderr, kept)
        for name in ("stderr", "__stderr__"):
            setattr(sys, name, made)
        _give_to_subprocesses(kept)


def share_terminal() -> None:
    """Erase the parent's live line before the script writes, where both write to a terminal."""
    if not (_is_terminal(sys.stdout) and _is_terminal(sys.stderr)):
        return
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        made = TerminalStream(
            stream.buffer,
            encoding=stream.encoding,
            errors=stream.errors,
            line_buffering=True,
            write_through=stream.write_through,
        )
        _KEPT.append(stream)  # it would close the buffer when it goes
        setattr(sys, name, made)


# Streams that the process began with.
_KEPT: Final[list[TextIO]] = []


def _stream_like(stream: TextIO, descriptor: int) -> TextIO:
    _KEPT.append(stream)
    raw = io.FileIO(descriptor, "wb")
    raw.name = stream.name
    is_unbuffered = getattr(stream, "write_through", False)  # python -u
    return io.TextIOWrapper(
        raw if is_unbuffered else io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=True,
        write_through=is_unbuffered,
    )


def _give_to_subprocesses(descriptor: int) -> None:
    """Standard error of :class:`subprocess.Popen`, unless the script names another one."""
    start = subprocess.Popen.__init__

    @functools.wraps(start)
    def start_with_stderr(self: Any, *args: Any, **options: Any) -> None:
        if len(args) <= _STDERR_POSITION and options.get("stderr") is None:
            options["stderr"] = descriptor
        start(self, *args, **options)

    setattr(subprocess.Popen, "__init__", start_with_stderr)  # noqa: B010 - a method


def _is_terminal(stream: Any) -> bool:
    return isinstance(stream, io.TextIOWrapper) and stream.isatty()
