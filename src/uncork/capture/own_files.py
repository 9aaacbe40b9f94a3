"""Leave files as they were before a script overwrote them, in a run that is thrown away.

Logs, tables, arrays: what :mod:`uncork.capture.quiet` does not hold back is written, with what
trials have made of the weights. Before a file is opened for writing, renamed or removed it is
copied, and :mod:`uncork.capture.putting_back` puts it back. New files stay, and are told. Somebody
else may write the same files meanwhile, a training that is running: what was only added to is left,
and so is what was changed after the script had closed it.

Seen is what Python opens (``open``, ``os.open``), renames or removes, file by file or whole
directories of them, and ``tf.io.gfile``; not what libraries write from C (HDF5, OpenCV, TFRecord
writers).
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
from uncork.capture.putting_back import LIST, KeptFile
from uncork.core.stack import outwards, owner, told

# Bytes of all copies; a script that overwrites more than that overwrites data, not results.
_LIMIT: Final = 2**29
# New files that are remembered: a script may make others at every step.
_MOST_NAMED: Final = 256
_ENCODE: Final = msgspec.json.Encoder().encode


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
    _finished: bool = False
    _absent: set[bytes] = field(default_factory=set)
    _added: set[bytes] = field(default_factory=set)
    _made: list[Path] = field(default_factory=list)
    _seen: dict[bytes, KeptFile] = field(default_factory=dict)
    _closed: dict[bytes, int] = field(default_factory=dict)
    _bytes: int = 0
    _lock: Any = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """As other paths are looked at: a directory for temporary files may be a link."""
        self._own = os.path.realpath(os.fsencode(self.folder.parent)) + os.fsencode(os.sep)

    def before_writing(self, path: Any, *, adding: bool = False) -> None:
        """A file is about to be opened for writing.

        Args:
            path: As the script names it; a number is a file that is open already.
            adding: What it holds is left as it is.
        """
        if isinstance(path, int) or _is_uncorks_own():
            return
        with suppress(OSError, ValueError, TypeError), self._lock:
            self._keep(os.path.realpath(os.fsencode(path)), adding=adding)
        self.at_write()

    def before_moving(self, path: Any, to: Any = None) -> None:
        """A file is about to be renamed or removed; of a link not what it points to.

        Args:
            path: As the script names it.
            to: Its new name, where another file may be.
        """
        if isinstance(path, int) or _is_uncorks_own():
            return
        with suppress(OSError, ValueError, TypeError), self._lock:
            places = [_place(each) for each in (path, to) if each is not None]
            self._keep(places[0], renaming=to is not None)
            for place in places[1:]:
                self._keep(place)
            if to is not None and os.path.isdir(places[0]):  # noqa: PTH112 - names are bytes
                self._keep_directory(*places)
        self.at_write()

    def before_making(self, path: Any) -> None:
        """A directory, or another name for something, is about to be made; all above it as well."""
        if isinstance(path, int):
            return
        with suppress(OSError, ValueError, TypeError), self._lock:
            place = _place(path)
            while place not in self._absent and not os.path.lexists(place):
                self._absent.add(place)
                place = os.path.dirname(place)  # noqa: PTH120 - names are bytes

    def opened(self, path: Any, file: Any) -> None:
        """A file was opened for writing; told where it was copied, so that its end is seen."""
        with suppress(OSError, ValueError, TypeError):
            real = os.path.realpath(os.fsencode(path))
            if real in self._seen:
                weakref.finalize(file, self._close, real).atexit = False

    def finish(self) -> None:
        """The script has ended, but for its exit handlers: write down when it closed what."""
        self._finished = True
        with suppress(OSError):  # without it, what it closed counts as its own to the end
            for path, closed_ns in list(self._closed.items()):
                self._note(msgspec.structs.replace(self._seen[path], closed_ns=closed_ns))

    def _close(self, path: bytes) -> None:
        self._closed[path] = time.time_ns()

    def new(self) -> tuple[str, ...]:
        """Files that are there now and were not before the trials."""
        return tuple(told(str(file)) for file in dict.fromkeys(self._made) if file.exists())

    def _keep(self, path: bytes, *, adding: bool = False, renaming: bool = False) -> None:
        """Copy it, unless the script has made it itself.

        Args:
            path: That is about to be written, or to go.
            adding: What is in it stays.
            renaming: It gets another name. What has changed since the script began, and was not
                seen to, has been written from C, or by a process of the script's own.
        """
        if self._closed.pop(path, None) and self._finished:  # it is open again
            self._note(self._seen[path])
        if path in self._seen or path.startswith(self._own):
            return
        file = Path(os.fsdecode(path))
        if not os.path.lexists(path):
            self._absent.add(path)
            if self.trials and len(self._made) < _MOST_NAMED:
                self._made.append(file)
        if adding:
            self._added.add(path)
        if adding or self._is_its_own(path):
            return
        now = file.lstat()
        if renaming and now.st_ctime_ns >= self._began_ns and path not in self._added:
            return
        if stat.S_ISLNK(now.st_mode):
            self._seen[path] = KeptFile(path=path, link=os.readlink(path))  # noqa: PTH115
        elif stat.S_ISREG(now.st_mode):
            self._seen[path] = KeptFile(
                path=path,
                size=now.st_size,
                times=(now.st_atime_ns, now.st_mtime_ns),
                mode=stat.S_IMODE(now.st_mode),
                copy=self._copied(file, now.st_size),
            )
        else:
            return
        self._note(self._seen[path])

    def _is_its_own(self, path: bytes) -> bool:
        """It was not there before the script touched it, or lies in a directory that was not."""
        while path not in self._absent:
            above = os.path.dirname(path)  # noqa: PTH120 - names are bytes
            if above == path:
                return False
            path = above
        return True

    def _keep_directory(self, path: bytes, to: bytes) -> None:
        """What is in it is not copied: it moves along, and can move back."""
        if self._is_its_own(path) or path.startswith(self._own):
            self._absent.add(to)
            return
        self._absent.discard(to)  # what is in it is the user's
        self._note(KeptFile(path=path, moved=to))

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
        with (self.folder / LIST).open("ab") as listed:
            listed.write(_ENCODE(kept) + b"\n")


@contextmanager
def keep_files(folder: Path) -> Iterator[OwnFiles]:
    """Copy every file that is overwritten while the block runs.

    Args:
        folder: For the copies, in a directory of Uncork's own.

    Example:
        >>> import tempfile
        >>> from uncork.capture.putting_back import put_back
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
    patches.replace(os, "truncate", functools.partial(_truncating, files))
    for name in ("remove", "unlink"):
        patches.replace(os, name, functools.partial(_removing, files))
    for name in ("rename", "replace"):
        patches.replace(os, name, functools.partial(_renaming, files))
    patches.replace(os, "mkdir", functools.partial(_making, files))
    for name in ("symlink", "link"):
        if hasattr(os, name):
            patches.replace(os, name, functools.partial(_linking, files))
    # Before Python 3.11 paths keep functions of their own, taken when pathlib was imported.
    kept = getattr(pathlib, "_normal_accessor", None)
    if kept is not None:
        patches.replace(kept, "open", functools.partial(_opening, files))
        patches.replace(kept, "unlink", functools.partial(_removing, files))
        patches.replace(kept, "mkdir", functools.partial(_making, files))
        for name in ("symlink", "link"):
            patches.replace(kept, name, functools.partial(_linking, files))
        for name in ("rename", "replace"):
            patches.replace(kept, name, functools.partial(_renaming, files))
    patches.when_imported(
        "tensorflow.python.lib.io.file_io", functools.partial(_on_file_io, files, patches)
    )
    try:
        yield files
    finally:
        patches.undo()
        files.finish()


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


def _truncating(files: OwnFiles, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def truncated(path: Any, length: Any) -> Any:
        files.before_writing(path)
        return original(path, length)

    return truncated


def _removing(files: OwnFiles, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def removed(path: Any, *, dir_fd: Any = None) -> Any:
        files.before_moving(_within(dir_fd, path))
        return original(path, dir_fd=dir_fd)

    return removed


def _renaming(files: OwnFiles, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def renamed(src: Any, dst: Any, *, src_dir_fd: Any = None, dst_dir_fd: Any = None) -> Any:
        files.before_moving(_within(src_dir_fd, src), _within(dst_dir_fd, dst))
        return original(src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    return renamed


def _making(files: OwnFiles, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def made(path: Any, *args: Any, dir_fd: Any = None, **kwargs: Any) -> Any:
        files.before_making(_within(dir_fd, path))
        return original(path, *args, dir_fd=dir_fd, **kwargs)

    return made


def _linking(files: OwnFiles, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def linked(src: Any, dst: Any, *args: Any, **kwargs: Any) -> Any:
        files.before_making(_within(kwargs.get("dir_fd", kwargs.get("dst_dir_fd")), dst))
        return original(src, dst, *args, **kwargs)

    return linked


def _within(directory: Any, path: Any) -> Any:
    """A path that is relative to an open directory, as ``shutil.rmtree`` names all of them."""
    if directory is None:
        return path
    with suppress(OSError, TypeError):
        return os.path.join(_path_of(directory), os.fsdecode(path))  # noqa: PTH118
    return directory


def _path_of(directory: int) -> str:
    """Of an open one.

    Raises:
        OSError: It has none any more, or the system tells none.
    """
    if sys.platform == "darwin":
        import fcntl  # noqa: PLC0415 - not on Windows

        found = fcntl.fcntl(directory, fcntl.F_GETPATH, bytes(1024))
        return os.fsdecode(found.rstrip(b"\0"))
    return os.readlink(f"/proc/self/fd/{directory}")  # noqa: PTH115


def _place(path: Any) -> bytes:
    """Where a name stands, which may be that of a link."""
    folder, name = os.path.split(os.path.abspath(os.fsencode(path)))  # noqa: PTH100
    return os.path.join(os.path.realpath(folder), name)  # noqa: PTH118


def _on_file_io(files: OwnFiles, patches: Patches, module: Any) -> None:
    """``tf.io.gfile``: its own files, and what its functions call to rename and remove others."""
    patches.replace(module.FileIO, "_prewrite_check", functools.partial(_checking, files))
    below = module._pywrap_file_io
    patches.replace(below, "DeleteFile", functools.partial(_deleting, files))
    patches.replace(below, "DeleteRecursively", functools.partial(_deleting_all, files))
    patches.replace(below, "RenameFile", functools.partial(_moving, files))
    for name in ("CreateDir", "RecursivelyCreateDir"):
        patches.replace(below, name, functools.partial(_creating, files))
    patches.replace(below, "CopyFile", functools.partial(_copying, files))


def _checking(files: OwnFiles, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def check(file: Any) -> Any:
        files.before_writing(file.name, adding="a" in str(file.mode))
        return original(file)

    return check


def _deleting(files: OwnFiles, original: Callable[..., Any]) -> Callable[..., Any]:
    def deleted(path: Any, *rest: Any) -> Any:
        files.before_moving(path)
        return original(path, *rest)

    return deleted


def _deleting_all(files: OwnFiles, original: Callable[..., Any]) -> Callable[..., Any]:
    def deleted(path: Any, *rest: Any) -> Any:
        for folder, inner, names in os.walk(os.fsdecode(path)):
            links = [name for name in inner if Path(folder, name).is_symlink()]
            for name in (*links, *names):
                files.before_moving(Path(folder, name))
        return original(path, *rest)

    return deleted


def _creating(files: OwnFiles, original: Callable[..., Any]) -> Callable[..., Any]:
    def created(path: Any, *rest: Any) -> Any:
        files.before_making(path)
        return original(path, *rest)

    return created


def _moving(files: OwnFiles, original: Callable[..., Any]) -> Callable[..., Any]:
    def moved(path: Any, to: Any, *rest: Any) -> Any:
        files.before_moving(path, to)
        return original(path, to, *rest)

    return moved


def _copying(files: OwnFiles, original: Callable[..., Any]) -> Callable[..., Any]:
    def copied(path: Any, to: Any, *rest: Any) -> Any:
        files.before_writing(to)
        return original(path, to, *rest)

    return copied
