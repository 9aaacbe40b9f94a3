"""Worker processes that end without a result: why, in words."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Final

from uncork.core.base import exit_codes
from uncork.core.base.errors import NothingToMeasure, UncorkError, quote

# Bytes of what a quiet child wrote at last, among which its last line is looked for.
_TAIL: Final = 16_384
_TRACEBACK: Final = "Traceback (most recent call last):"


class WorkerFailed(UncorkError):
    """A child ended without a result; it has said why itself.

    Args:
        exit_code: The exit code to hand on.
        last_line: The last that a quiet one wrote to its standard error.
        is_killed: As the kernel does to a process that takes all memory.
    """

    def __init__(self, exit_code: int, last_line: str = "", *, is_killed: bool = False) -> None:
        because = f": {quote(last_line)}" if last_line else ""
        super().__init__(f"the worker process ended with exit code {exit_code}{because}")
        self.exit_code = exit_code
        self.is_killed = is_killed


def failure_without_result(code: int, said: str, *, is_told: bool, quiet: bool) -> UncorkError:
    """Say why a worker process left no result.

    Args:
        code: Its exit code.
        said: The last that it wrote to its standard error.
        is_told: It came to its own end, and has said why.
        quiet: Nothing is written to the terminal.
    """
    if code == exit_codes.DONE:
        return NothingToMeasure(
            "the script ended its process (os._exit) before there was a result",
            "a script that trains and ends normally",
            "remove the os._exit, or an 'except:' that catches everything",
        )
    if code > 0 and not is_told:
        if not quiet:
            ended = f"uncork: the process that ran the script ended with exit code {code}\n"
            sys.stderr.write(ended)
        code = exit_codes.SCRIPT_FAILED
    # A process killed by a signal is a script that failed.
    is_killed = -code == getattr(signal, "SIGKILL", None)
    return WorkerFailed(max(code, exit_codes.SCRIPT_FAILED), said, is_killed=is_killed)


def last_line(file: Path) -> str:
    """Of what a quiet child's script wrote: most often the name and message of an exception."""
    if not file.exists():
        return ""
    with file.open("rb") as written:
        written.seek(max(0, file.stat().st_size - _TAIL))
        lines = written.read().decode(errors="replace").splitlines()
    own = [line for line in lines if not line.startswith("uncork: ")]
    begins = [i for i, line in enumerate(own) if line.startswith(_TRACEBACK)]
    # What an exception says may be many lines long: the first one names it.
    raised = (line for line in own[begins[-1] + 1 :] if line[:1].strip()) if begins else ()
    return next((line.strip() for line in (*raised, *reversed(own)) if line.strip()), "")


def tell_signal(number: int) -> None:
    """Say on the terminal which signal ended the process of the script."""
    hint = " (out of memory?)" if number == signal.SIGKILL else ""
    name = signal.Signals(number).name
    sys.stderr.write(f"uncork: {name} ended the script's process{hint}\n")
