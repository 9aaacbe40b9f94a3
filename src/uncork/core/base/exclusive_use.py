"""A file that one process at a time may write, among those that ask here."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def exclusive_use(path: Path) -> Iterator[bool]:
    """Claim a file until the end; the system gives it free if this process is killed.

    The lock lies in the directory for temporary files: nothing is written beside the file.

    Args:
        path: Of the file, which need not exist. It is neither opened nor changed.

    Yields:
        Whether it is claimed: False while another process has claimed it. On Windows, where a lock
        like this one is not known, it always is; so it is where no lock can be written.

    Example:
        >>> with (
        ...     exclusive_use(Path("plan.json")) as is_mine,
        ...     exclusive_use(Path("plan.json")) as too,
        ... ):
        ...     is_mine, too
        (True, False)
    """
    if sys.platform == "win32":
        yield True
        return
    lock = _lock_of(path)
    opened, is_claimed = _opened_and_locked(lock)
    try:
        yield is_claimed
    finally:
        if opened is not None:
            if is_claimed:
                with suppress(OSError):
                    lock.unlink()
            os.close(opened)


def remove_abandoned_locks() -> None:
    """Remove what processes of this user left that were killed."""
    if sys.platform == "win32":
        return
    for lock in Path(tempfile.gettempdir()).glob(f"{_prefix()}*.lock"):
        with suppress(OSError):
            opened, is_claimed = _opened_and_locked(lock)
            if opened is None:
                continue
            if is_claimed:
                lock.unlink()
            os.close(opened)


def _prefix() -> str:
    return f"uncork-{os.getuid()}-"


def _lock_of(path: Path) -> Path:
    digest = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:16]
    return Path(tempfile.gettempdir(), f"{_prefix()}{digest}.lock")


def _opened_and_locked(lock: Path) -> tuple[int | None, bool]:
    """The open lock, None where there can be none, and whether its file is claimed."""
    import fcntl  # noqa: PLC0415 - not on Windows

    while True:
        try:
            opened = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError:
            return None, True
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return opened, False
        if os.fstat(opened).st_nlink:
            return opened, True
        os.close(opened)  # whoever had it before has just removed it
