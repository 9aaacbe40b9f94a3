"""Leave files as they were before a script overwrote them, in a run that is thrown away.

Logs, tables, arrays: what :mod:`uncork.capture.quiet` does not hold back is written, with what
trials have made of the weights. Before a file is opened for writing it is copied; the parent, which
outlives a child that is killed, puts it back. New files stay, and are told. Somebody else may write
the same files meanwhile, a training that is running: what was only added to is left, and so is what
was changed after the script had closed it.

Seen is what Python opens (``open``, ``os.open``, ``tf.io.gfile``) and what it renames or removes by
path; not what libraries write from C (HDF5, OpenCV, TFRecord writers).
"""

from __future__ import annotations

import builtins
import functools
import io
import os
import pathlib
import shutil
import stat
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from uncork.capture.patches import Patches
from uncork.core.record import Record
from uncork.core.stack import outwards, owner, told

# Bytes of all copies; a script that overwrites more than that overwrites data, not results.
_LIMIT: Final = 2**29
# New files that are remembered: a script may make others at every step.
_MOST_NAMED: Final = 256
_LIST: Final = "list"
_ENCODE: Final = msgspec.json.Encoder().encode


class KeptFile(Record, frozen=True, kw_only=True):
    """A file as it was found.

    Attributes:
        path: Absolute, symbolic links followed.
        size: Bytes.
        times: Of its last access and its last change, in nanoseconds.
        copy: Name of its copy; None where there is none: it is too large, or there is no room.
        closed_ns: When the script closed it last; None where that was not seen.
    """

    path: bytes
    size: int
    times: tuple[int, int]
    copy: str | None = None
    closed_ns: int | None = None


@dataclass(frozen=True)
class PutBack:
    """What became of files that were overwritten.

    Attributes:
        done: Those that are as they were.
        lost: Those that are not.
    """

    done: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


@dataclass
class OwnFiles:
    """Copies what is about to be overwritten.

    Args:
        folder: For the copies; nothing beside it is looked at either, as it is Uncork's own.

    Attributes:
        at_write: Called before the script writes a file; may end the script.
        trials: From here on weights are those of trials.
    """

    folder: Path
    at_write: Callable[[], None] = lambda: None
    trials: bool = False
    _own: bytes = field(init=False)
    _began_ns: int = field(default_factory=time.time_ns)
    _made: list[Path] = field(default_factory=list)
    _seen: dict[bytes, KeptFile] = field(default_factory=dict)
    _added: set[bytes] = field(default_factory=set)
    _closed: dict[bytes, int] = field(default_factory=dict)
    _bytes: int = 0
    _lock: Any = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """As other paths are looked at: a directory for temporary files may be a link."""
        self._own = os.path.realpath(os.fsencode(self.folder.parent)) + os.fsencode(os.sep)

    def before_writing(self, path: Any, *, adding: bool = False) -> None:
        """A file is about to be opened for writing, renamed or removed.

        Args:
            path: As the script names it; a number is a file that is open already.
            adding: What it holds is left as it is.
        """
        if isinstance(path, int) or _is_uncorks_own():
            return
        with suppress(OSError, ValueError, TypeError), self._lock:
            real = os.path.realpath(os.fsencode(path))
            if not real.startswith(self._own):
                self._keep(real, adding=adding)
        self.at_write()

    def opened(self, path: Any, file: Any) -> None:
        """A file was opened for writing; told where it was copied, so that its end is seen."""
        with suppress(OSError, ValueError, TypeError):
            real = os.path.realpath(os.fsencode(path))
            if real in self._seen:
                weakref.finalize(file, self._close, real).atexit = False

    def finish(self) -> None:
        """The script has ended: write down when it closed what."""
        with suppress(OSError):  # without it, what it closed counts as its own to the end
            for path, closed_ns in list(self._closed.items()):
                self._note(msgspec.structs.replace(self._seen[path], closed_ns=closed_ns))

    def _close(self, path: bytes) -> None:
        self._closed[path] = time.time_ns()

    def new(self) -> tuple[str, ...]:
        """Files that are there now and were not before the trials."""
        return tuple(told(str(file)) for file in dict.fromkeys(self._made) if file.exists())

    def _keep(self, path: bytes, *, adding: bool) -> None:
        self._closed.pop(path, None)  # it is open again
        if path in self._seen:
            return
        file = Path(os.fsdecode(path))
        if not file.exists() and self.trials and len(self._made) < _MOST_NAMED:
            self._made.append(file)
        now = file.stat()
        by_itself = now.st_ctime_ns >= self._began_ns and path not in self._added
        if adding or by_itself or not stat.S_ISREG(now.st_mode):
            if adding and not by_itself:
                self._added.add(path)
            return
        times = now.st_atime_ns, now.st_mtime_ns
        copy = self._copied(file, now.st_size)
        self._seen[path] = KeptFile(path=path, size=now.st_size, times=times, copy=copy)
        self._note(self._seen[path])

    def _copied(self, file: Path, size: int) -> str | None:
        if self._bytes + size > _LIMIT:
            return None
        copy = f"{os.getpid()}-{len(self._seen)}"
        try:
            shutil.copyfile(file, self.folder / copy)
        except OSError:
            return None
        self._bytes += size
        return copy

    def _note(self, kept: KeptFile) -> None:
        with (self.folder / _LIST).open("ab") as listed:
            listed.write(_ENCODE(kept) + b"\n")


@contextmanager
def keep_files(folder: Path) -> Iterator[OwnFiles]:
    """Copy every file that is overwritten while the block runs.

    Args:
        folder: For the copies, in a directory of Uncork's own.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as own:
        ...     log, kept = Path(home, "log.txt"), Path(own, "kept")
        ...     _ = log.write_text("three days")
        ...     with keep_files(kept):
        ...         pass  # the user's code
        ...     put_back(kept)
        PutBack(done=(), lost=())
    """
    folder.mkdir(parents=True, exist_ok=True)
    files, patches = OwnFiles(folder), Patches()
    patches.replace(builtins, "open", functools.partial(_opening, files))
    patches.replace(io, "open", functools.partial(_opening, files))
    patches.replace(os, "open", functools.partial(_opening_by_flags, files))
    for name in ("rename", "replace", "remove", "unlink", "truncate"):
        patches.replace(os, name, functools.partial(_changing, files))
    # Before Python 3.11 paths keep functions of their own, taken when pathlib was imported.
    kept = getattr(pathlib, "_normal_accessor", None)
    if kept is not None:
        patches.replace(kept, "open", functools.partial(_opening, files))
        for name in ("rename", "replace", "unlink"):
            patches.replace(kept, name, functools.partial(_changing, files))
    patches.when_imported(
        "tensorflow.python.lib.io.file_io", functools.partial(_on_file_io, files, patches)
    )
    try:
        yield files
    finally:
        patches.undo()
        files.finish()


def put_back(folder: Path) -> PutBack:
    """Make all files as they were found, as far as they were changed.

    Args:
        folder: With the copies; it need not be there.
    """
    found: dict[bytes, KeptFile] = {}
    with suppress(FileNotFoundError):
        for line in (folder / _LIST).read_bytes().splitlines():
            with suppress(msgspec.MsgspecError):  # its process was killed while it wrote that
                kept = msgspec.json.decode(line, type=KeptFile)
                found[kept.path] = kept
    done, lost = [], []
    for kept in found.values():
        if _is_unchanged(kept):
            continue
        name = told(os.fsdecode(kept.path))
        try:
            _restore(kept, folder)
        except OSError:
            lost.append(name)
        else:
            done.append(name)
    return PutBack(tuple(done), tuple(lost))


def _is_unchanged(kept: KeptFile) -> bool:
    try:
        now = Path(os.fsdecode(kept.path)).stat()
    except OSError:
        return False
    return (now.st_size, now.st_mtime_ns) == (kept.size, kept.times[1])


def _restore(kept: KeptFile, folder: Path) -> None:
    """Its contents first: where the file is still there, it stays the same file.

    Raises:
        OSError: It cannot be.
    """
    path = Path(os.fsdecode(kept.path))
    if kept.copy is None or _is_somebody_else_s(kept, path):
        raise OSError
    with (folder / kept.copy).open("rb") as copy, path.open("wb") as file:
        shutil.copyfileobj(copy, file)
    os.utime(path, ns=kept.times)


def _is_somebody_else_s(kept: KeptFile, path: Path) -> bool:
    """It was written again after the script had closed it, as by a training that is running."""
    return kept.closed_ns is not None and path.exists() and path.stat().st_mtime_ns > kept.closed_ns


def _is_uncorks_own() -> bool:
    for frame in outwards(sys._getframe(3)):
        who = owner(frame)
        if who != "library":
            return who == "uncork"
    return False


def _opening(files: OwnFiles, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def opened(file: Any, mode: Any = "r", *args: Any, **kwargs: Any) -> Any:
        if isinstance(mode, str) and set(mode) & set("wax+"):
            files.before_writing(file, adding="a" in mode)
            found = original(file, mode, *args, **kwargs)
            files.opened(file, found)
            return found
        return original(file, mode, *args, **kwargs)

    return opened


def _opening_by_flags(files: OwnFiles, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def opened(path: Any, flags: Any, *args: Any, **kwargs: Any) -> Any:
        writing = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_TRUNC)
        if writing and kwargs.get("dir_fd") is None:
            files.before_writing(path, adding=bool(flags & os.O_APPEND))
        return original(path, flags, *args, **kwargs)

    return opened


def _changing(files: OwnFiles, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def changed(path: Any, *args: Any, **kwargs: Any) -> Any:
        if not any(name.endswith("dir_fd") for name in kwargs):
            files.before_writing(path)
            if original.__name__ in ("rename", "replace") and args:
                files.before_writing(args[0])
        return original(path, *args, **kwargs)

    return changed


def _on_file_io(files: OwnFiles, patches: Patches, module: Any) -> None:
    """TensorFlow's own files: ``tf.io.gfile.GFile``."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def check(file: Any) -> Any:
            mode = str(file.mode)
            files.before_writing(file.name, adding="a" in mode)
            return original(file)

        return check

    patches.replace(module.FileIO, "_prewrite_check", make)
