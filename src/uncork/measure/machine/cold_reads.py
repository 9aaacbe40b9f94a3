"""How fast files come from where they are kept, when the system does not hold them in memory."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# Files that are read; of each no more than so many bytes, and of all together.
_FILES: Final = 64
_BYTES: Final = 4 << 20
_ALL_BYTES: Final = 64 << 20
# Files whose sizes tell how many that are.
_FIRST: Final = 16
# At once: what is kept in parts, or far away, is faster then, and readers of data are several.
_READERS: Final = 8
_PAGE: Final = 4096


@dataclass(frozen=True)
class ColdReads:
    """Files that were read from where they are kept.

    Attributes:
        file_count: How many.
        total_bytes: Of what was read of them.
        wall_s: Elapsed seconds, several at once.
    """

    file_count: int
    total_bytes: int
    wall_s: float


def measure_cold_reads(paths: Sequence[str | bytes], *, budget_s: float = 0.5) -> ColdReads | None:
    """Read some files, or their beginnings, after the system was asked to forget those parts.

    The files are not changed, and what was read is remembered again. Of files that the system goes
    on holding, as those that were just written, nothing is told.

    Args:
        paths: Of all files; some are chosen from all over them.
        budget_s: After so many seconds no further file is begun.

    Returns:
        None where none could be read so, or this system cannot be asked.

    Example:
        >>> measure_cold_reads(["no such file"]) is None
        True
    """
    if not hasattr(os, "posix_fadvise") or not hasattr(os, "RWF_NOWAIT"):
        return None
    first = [size for size in map(_size, paths[:_FIRST]) if size]
    if not first:
        return None
    most = int(min(_FILES, max(1, _ALL_BYTES * len(first) // sum(first))))
    step = max(1, len(paths) // most)
    with _forgotten(paths[::step][:most]) as files:
        # Filling memory with zeros takes as long as a quick disk takes to read as much.
        buffers = [bytearray(min(os.fstat(fd).st_size, _BYTES)) for fd in files]
        with ThreadPoolExecutor(_READERS) as pool:
            list(pool.map(time.sleep, [0.001] * _READERS))  # they begin
            begin = time.perf_counter()
            until = begin + budget_s
            read = [n for n in pool.map(_read, files, buffers, [until] * len(files)) if n]
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


def _size(path: str | bytes) -> int:
    """Bytes of it that would be read; 0 where there is no such file."""
    with suppress(OSError, ValueError):
        found = Path(os.fsdecode(path)).stat()
        return min(found.st_size, _BYTES) if stat.S_ISREG(found.st_mode) else 0
    return 0


def _is_held(fd: int) -> bool:
    """Whether it can be read without waiting; so, too, where nobody can tell, or nothing is there.

    Asked of its last page that will be read: asking has the system begin to read that. So of files
    of one or two pages nothing is asked.
    """
    try:
        last = min(os.fstat(fd).st_size, _BYTES) - _PAGE
        if last <= _PAGE:
            return True
        os.preadv(fd, [bytearray(1)], last, os.RWF_NOWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _read(fd: int, buffer: bytearray, deadline: float) -> int:
    """Bytes of a file that were read; 0 past the deadline, or where it cannot be read."""
    if time.perf_counter() > deadline:
        return 0
    with suppress(OSError):
        return os.preadv(fd, [buffer], 0)
    return 0
