"""Temporary folders that tell whether the process that made them still lives.

Each contains a file that its process has locked. The system releases the lock when the process
ends, however it ends: what can be locked by another process is left over. Process numbers would
not do: they are given again, and are others in a container that shares the directory.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

# Nothing but folders that are called so, and contain the file, is ever taken for one of ours.
_PREFIX: Final = "uncork-"
_OWNER: Final = ".owner"
# How old the note that an owner lives may be, in seconds.
_NOTED_S: Final = 2.0


@contextmanager
def owned_folder() -> Iterator[str]:
    """A new folder in the directory for temporary files; removed at the end.

    Raises:
        OSError: There is no room for it.

    Example:
        >>> with owned_folder() as folder:
        ...     has_living_owner(Path(folder)), Path(folder) in list(abandoned_folders())
        (True, False)
    """
    folder = tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True)
    owner = None
    try:
        owner = _locked_file(Path(folder.name, _OWNER))
        yield folder.name
    finally:
        folder.cleanup()
        if owner is not None:
            os.close(owner)


def has_living_owner(folder: Path) -> bool:
    """Whether the process that made the folder lives; if nobody can tell, it does."""
    try:
        opened = os.open(folder / _OWNER, os.O_RDWR)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        return not _lock(opened)
    finally:
        os.close(opened)


def note_alive(folder: Path) -> None:
    """Note, from time to time, that the owner lives: it tells later when it ended."""
    with suppress(OSError):
        if time.time() - (folder / _OWNER).stat().st_mtime > _NOTED_S:
            os.utime(folder / _OWNER)


def last_alive_ns(folder: Path) -> int:
    """When the owner lived at the latest, in nanoseconds since the epoch.

    Raises:
        OSError: The folder is gone.
    """
    return (folder / _OWNER).stat().st_mtime_ns + int(2 * _NOTED_S * 1e9)


def abandoned_folders() -> Iterator[Path]:
    """Folders of this user whose processes ended without removing them.

    Each is locked for the caller until the next one is asked for, so that two processes never
    work on the same folder. None on Windows, where nobody can tell.
    """
    if sys.platform == "win32":
        return
    for path in sorted(Path(tempfile.gettempdir()).glob(f"{_PREFIX}*")):
        with suppress(OSError):
            if path.is_symlink() or path.stat().st_uid != os.getuid():
                continue
            opened = os.open(path / _OWNER, os.O_RDWR | os.O_NOFOLLOW)
            try:
                # Without text it was not locked yet by the process that is about to.
                if os.read(opened, 1) and _lock(opened) and os.fstat(opened).st_nlink:
                    yield path
            finally:
                os.close(opened)


def _locked_file(path: Path) -> int | None:
    """Locked before there is text in it; None where nobody can lock a file."""
    if sys.platform == "win32":
        return None
    opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    if _lock(opened):
        os.write(opened, str(os.getpid()).encode())
    return opened


def _lock(opened: int) -> bool:
    """Whether the lock is this process's now."""
    if sys.platform == "win32":
        return False
    import fcntl  # noqa: PLC0415 - not on Windows

    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
