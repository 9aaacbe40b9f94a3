"""What TensorFlow's C++ code wrote in worker processes: kept where something failed."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# The first words of a log; a file that begins otherwise is not Uncork's to replace.
_HEAD: Final = "uncork: what TensorFlow wrote while "
_NAME: Final = "uncork.log"
# Of a log whose process was killed, what is printed.
_LAST_LINES: Final = 8
_TAIL_BYTES: Final = 16_384
# What TensorFlow writes in every process, however it ends.
_USUAL: Final = re.compile(
    r"I\d{4} |WARNING: All log messages before absl|To enable the following instructions"
)


@dataclass
class WorkerLog:
    """A log beside the report, made of those of several processes.

    Attributes:
        folder: Of the report.
        is_always_kept: The log is kept where nothing failed, too.
        path: Of the log; None as long as there is none.
    """

    folder: Path
    is_always_kept: bool = False
    path: Path | None = None

    def keep(self, log: Path, script: str) -> Path | None:
        """Append the log of one process; returns where, or None where there is nothing to keep."""
        with suppress(OSError):
            text = log.read_bytes()
            if not text.strip():
                return None
            path = self.path or self._new_file()
            with path.open("ab") as file:
                file.write(f"{_HEAD}{script!r} ran\n".encode(errors="replace") + text)
            self.path = path
            return path
        return None

    def _new_file(self) -> Path:
        """In the place of an earlier log; where something else is, with a number."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path, number = self.folder / _NAME, 1
        while path.exists() and not _is_log(path):
            number += 1
            path = self.folder / f"uncork-{number}.log"
        path.write_bytes(b"")
        return path


def print_last_lines(log: Path) -> None:
    """The end of the log of a process that was killed: most often it says why."""
    with suppress(OSError):
        lines = log.read_bytes()[-_TAIL_BYTES:].decode(errors="replace").splitlines()
        told = [line for line in lines if line.strip() and not _USUAL.match(line)]
        shown = told[-_LAST_LINES:]
        if shown:
            sys.stderr.write("uncork: TensorFlow wrote last:\n")
            sys.stderr.write("".join(f"  {line}\n" for line in shown))


def _is_log(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            start = file.read(len(_HEAD))
    except OSError:
        return False
    return start in (b"", _HEAD.encode())
