"""Cache files that live as long as this process: where they are, and who deletes them.

Each process makes a folder of its own in the one that the user has named, and removes it at its
end. A process that is killed cannot; the next one that comes there does. It knows such a folder by
its mark, a file that the owner has locked while it lived: the system gives the lock back however a
process ends, and on the same machine nobody else ever holds it. What does not bear the mark, and
files that are not named like ours, are never touched.
"""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import sys
import tempfile
import time
import weakref
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from uncork.core.base.errors import EditRefused
from uncork.core.evidence.storage import CACHE_FOLDER_PREFIX, cache_files_bytes, folder_name_refusal

_MARK: Final = "made-by-uncork"
_MARKED: Final = b"A folder of one process, made by Uncork. It goes when that process ends.\n"
_FILE: Final = "cache"
_ANOTHER: Final = "free disk space, or tune again with another folder: --disk-cache DIR"
# Tried again where another process, or a thread that still writes, comes in between.
_TRIES: Final = 5
_BETWEEN_S: Final = 0.05


class CacheFiles:
    """The files of one cache; they go with the last dataset that reads them.

    Args:
        directory: Exists and is empty.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        weakref.finalize(self, _cleared, directory, os.getpid())

    @property
    def file_prefix(self) -> str:
        """What TensorFlow's file names begin with."""
        return str(self.directory / _FILE)

    @property
    def is_complete(self) -> bool:
        """They are only read from now on: TensorFlow writes the index last."""
        return (self.directory / f"{_FILE}.index").exists()

    def drop_page_cache(self) -> None:
        """Let the system forget what it holds of them, so that the disk is read next time."""
        for path in self.directory.glob(f"{_FILE}*"):
            with suppress(OSError):
                _drop(path)


@dataclass(frozen=True)
class _Own:
    """The folder of this process in one that the user has named."""

    path: Path
    lock: int
    pid: int


_OWN: dict[str, _Own] = {}
_COUNT: Final = iter(range(1 << 62))


def create_cache_files(folder: str, element_bytes: int) -> CacheFiles:
    """A new folder for the files of one cache.

    Args:
        folder: As the user has named it, absolute.
        element_bytes: Bytes of the elements that it will hold; 0 where that is not known.

    Raises:
        EditRefused: There is no such folder, no permission, no lock or no free space.

    Example:
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     files = create_cache_files(folder, 0)
        ...     names = [path.name[:14] for path in Path(folder).iterdir()], files.is_complete
        ...     remove_process_folder(folder)
        ...     names, list(Path(folder).iterdir())
        ((['.uncork-cache-'], False), [])
    """
    own = _own(folder)
    missing = find_lack_of_space(folder, element_bytes)
    if missing:
        raise EditRefused(*missing)
    directory = own.path / str(next(_COUNT))
    try:
        directory.mkdir()
    except OSError as error:
        raise _unusable(folder, error) from error
    return CacheFiles(directory)


def check_cache_folder(folder: str, element_bytes: int = 0) -> None:
    """Refuse a folder that has no space for so many bytes of elements now.

    Raises:
        EditRefused: As of :func:`create_cache_files`.
    """
    _own(folder)
    missing = find_lack_of_space(folder, element_bytes)
    if missing:
        raise EditRefused(*missing)


def find_lack_of_space(folder: str, element_bytes: int) -> tuple[str, str, str] | None:
    """What was found, expected and could be done where there is no room; None where there is."""
    needed = cache_files_bytes(element_bytes)
    free = _free(folder)
    if free < needed:
        # Datasets lie in cycles, and files of a training that is over with them.
        gc.collect()
        free = _free(folder)
    if free >= needed:
        return None
    return (
        f"a file cache needs {needed / 1e9:.3g} GB in {folder}, but only {free / 1e9:.3g} "
        "GB are free",
        "free space for the whole cache",
        _ANOTHER,
    )


def _free(folder: str) -> int:
    try:
        return shutil.disk_usage(folder).free
    except OSError as error:
        raise _unusable(folder, error) from error


def remove_process_folder(folder: str) -> None:
    """Remove what this process has there, as at its end."""
    own = _OWN.pop(folder, None)
    if own is not None and own.pid == os.getpid():
        _remove(own.path)
        with suppress(OSError):
            os.close(own.lock)


def _own(folder: str) -> _Own:
    own = _OWN.get(folder)
    if own is not None and own.pid == os.getpid() and own.path.is_dir():
        return own
    if sys.platform == "win32":
        raise EditRefused(
            "Uncork caches in files only where it can lock them; on Windows it cannot yet",
            "Linux or macOS",
            "tune without --disk-cache",
        )
    refused = folder_name_refusal(folder)
    if refused:
        raise EditRefused(
            f"Uncork cannot cache files in {folder!r}: {refused}",
            "another folder",
            "tune again with --disk-cache DIR",
        )
    try:
        _clear(Path(folder))
        own = _made(Path(folder))
    except OSError as error:
        raise _unusable(folder, error) from error
    if not any(known.pid == own.pid for known in _OWN.values()):
        atexit.register(_leave_all)
    _OWN[folder] = own
    return own


def _unusable(folder: str, error: OSError) -> EditRefused:
    return EditRefused(
        f"Uncork cannot cache files in {folder}: {error.strerror or error}",
        "a folder that exists, with permission to write and to lock",
        _ANOTHER,
    )


def _made(folder: Path) -> _Own:
    """A new folder with its mark, locked; made anew where another process took it for a dead one's.

    Raises:
        OSError: There is no such folder, or no permission, or it knows no locks.
    """
    for _ in range(_TRIES):
        path = Path(tempfile.mkdtemp(prefix=CACHE_FOLDER_PREFIX, dir=folder))
        try:
            mark = os.open(path / _MARK, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        except FileNotFoundError:
            continue
        except OSError:
            path.rmdir()  # without its mark nobody would ever take it for one of ours
            raise
        try:
            os.write(mark, _MARKED)
            if _locked(mark) and _is_at(mark, path / _MARK):
                return _Own(path, mark, os.getpid())
        except FileNotFoundError:
            os.close(mark)
            continue
        except OSError:
            os.close(mark)
            _remove(path)
            raise
        os.close(mark)
    raise OSError(f"other processes delete new files there ({CACHE_FOLDER_PREFIX}...)")


def _locked(mark: int) -> bool:
    """Whether the lock is this process's now.

    Raises:
        OSError: The file system knows no locks.
    """
    if sys.platform == "win32":
        return False
    import fcntl  # noqa: PLC0415 - not on Windows

    try:
        fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(opened: int, path: Path) -> bool:
    """The open file is still the one that lies there."""
    try:
        return os.path.samestat(os.fstat(opened), path.stat())
    except FileNotFoundError:
        return False


def _clear(folder: Path) -> None:
    """Remove what killed processes left."""
    for path in folder.glob(f"{CACHE_FOLDER_PREFIX}*"):
        if path.is_symlink() or not path.is_dir():
            continue
        with suppress(OSError):
            mark = os.open(path / _MARK, os.O_RDWR | os.O_NOFOLLOW)
            try:
                if os.read(mark, len(_MARKED) + 1) == _MARKED and _locked(mark):
                    _remove(path)
            finally:
                os.close(mark)


def _remove(path: Path) -> None:
    """A folder of ours; a thread of TensorFlow's may still be writing there."""
    for _ in range(_TRIES):
        with suppress(OSError):
            for directory in path.iterdir():
                if directory.name.isdecimal() and not directory.is_symlink():
                    _cleared(directory, os.getpid())
            if [left.name for left in path.iterdir()] == [_MARK]:
                (path / _MARK).unlink()
                path.rmdir()
        if not path.is_dir():
            return
        time.sleep(_BETWEEN_S)


def _cleared(directory: Path, pid: int) -> None:
    """Remove the files of one cache; in a process that was forked they are its parent's."""
    if pid != os.getpid():
        return
    with suppress(OSError):
        for path in directory.glob(f"{_FILE}*"):
            path.unlink()
        directory.rmdir()


def _leave_all() -> None:
    for folder in list(_OWN):
        remove_process_folder(folder)


def _drop(path: Path) -> None:
    """From the system's memory; what is not written yet must be written first."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(opened, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(opened)
