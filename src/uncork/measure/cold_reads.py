"""How fast files come from where they are kept, when the system does not hold them in memory."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

# Files that are read; of each no more than so many bytes.
_FILES: Final = 64
_BYTES: Final = 4 << 20
# At once: what is kept in parts, or far away, is faster then, and readers of data are several.
_READERS: Final = 8
_PAGE: Final = 4096


@dataclass(frozen=True)
class ColdReads:
    """Files that were read from where they are kept.

    Attributes:
        files: How many.
        bytes: Of what was read of them.
        wall_s: Elapsed seconds, several at once.
    """

    files: int
    bytes: int
    wall_s: float


def cold_reads(paths: Sequence[str | bytes], *, budget_s: float = 0.5) -> ColdReads | None:
    """Read some files, or their beginnings, after the system was asked to forget those parts.

    The files are not changed, and what was read is remembered again. Of files that the system goes
    on holding, as those that were just written, nothing is told.

    Args:
        paths: Of all files; some are chosen from all over them.
        budget_s: After so many seconds no further file is begun.

    Returns:
        None where none could be read so, or this system cannot be asked.

    Example:
        >>> cold_reads(["no such file"]) is None
        True
    """
    if not hasattr(os, "posix_fadvise") or not hasattr(os, "RWF_NOWAIT"):
        return None
    step = max(1, len(paths) // _FILES)
    with _forgotten(paths[::step][:_FILES]) as files:
        if not files:
            return None
        begin = time.perf_counter()
        with ThreadPoolExecutor(_READERS) as pool:
            read = [n for n in pool.map(lambda fd: _read(fd, begin + budget_s), files) if n]
        wall_s = time.perf_counter() - begin
    return ColdReads(len(read), sum(read), wall_s) if read else None


@contextmanager
def _forgotten(paths: Sequence[str | bytes]) -> Iterator[list[int]]:
    """Open files whose beginnings the system does not hold any more; closed in the end."""
    opened: list[int] = []
    try:
        for path in paths:
            with suppress(OSError, ValueError):
                opened.append(os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0)))
                os.posix_fadvise(opened[-1], 0, _BYTES, os.POSIX_FADV_DONTNEED)
        yield [fd for fd in opened if not _is_held(fd)]
    finally:
        for fd in opened:
            os.close(fd)


def _is_held(fd: int) -> bool:
    """Whether it can be read without waiting; so, too, where nobody can tell, or nothing is there.

    Asked of its last page that will be read: asking may begin to read what follows.
    """
    try:
        last = max(0, min(os.fstat(fd).st_size, _BYTES) - _PAGE)
        os.preadv(fd, [bytearray(1)], last, os.RWF_NOWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _read(fd: int, deadline: float) -> int:
    """Bytes of a file that were read; 0 past the deadline, or where it cannot be read."""
    if time.perf_counter() > deadline:
        return 0
    buffer: Any = bytearray(_BYTES)
    with suppress(OSError):
        return os.preadv(fd, [buffer], 0)
    return 0
