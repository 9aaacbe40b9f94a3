"""Hooks where Python opens, renames, removes and creates files.

:mod:`uncork.capture.sandbox.file_backup` is told of each.

Seen is what goes through ``open`` and ``os``, file by file or whole directories of them, and
``tf.io.gfile``; not what libraries write from C (HDF5, OpenCV, TFRecord writers).
"""

from __future__ import annotations

import builtins
import functools
import io
import os
import pathlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from uncork.capture.base.patches import PatchSet
from uncork.capture.sandbox.file_backup import FileBackup
from uncork.compat.hook_targets import TF_FILES
from uncork.compat.tf.file_io import BEFORE_WRITE, native_functions


@contextmanager
def back_up_files(folder: Path) -> Iterator[FileBackup]:
    """Copy every file that is overwritten while the block runs.

    Args:
        folder: For the copies, in a directory of Uncork's own.

    Example:
        >>> import tempfile
        >>> from uncork.capture.sandbox.restore import restore_files
        >>> with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as own:
        ...     log, kept = Path(home, "log.txt"), Path(own, "kept")
        ...     _ = log.write_text("three days")
        ...     with back_up_files(kept):
        ...         pass  # the user's code
        ...     restore_files(kept)
        RestoreResult(restored_files=(), lost_files=())
    """
    folder.mkdir(parents=True, exist_ok=True)
    files, patches = FileBackup(folder), PatchSet()
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
    patches.when_imported(TF_FILES, functools.partial(_on_file_io, files, patches))
    try:
        yield files
    finally:
        patches.restore()
        files.finish()


def _opening(files: FileBackup, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def opened(file: Any, mode: Any = "r", *args: Any, **kwargs: Any) -> Any:
        if isinstance(mode, str) and set(mode) & set("wax+"):
            files.before_writing(file, is_append="a" in mode, is_truncated="w" in mode)
            found = original(file, mode, *args, **kwargs)
            files.note_opened(file, found)
            return found
        return original(file, mode, *args, **kwargs)

    return opened


def _opening_by_flags(files: FileBackup, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def opened(path: Any, flags: Any, *args: Any, **kwargs: Any) -> Any:
        writing = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_TRUNC)
        if writing and kwargs.get("dir_fd") is None:
            anew = bool(flags & os.O_TRUNC and flags & os.O_CREAT)
            files.before_writing(path, is_append=bool(flags & os.O_APPEND), is_truncated=anew)
        return original(path, flags, *args, **kwargs)

    return opened


def _truncating(files: FileBackup, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def truncated(path: Any, length: Any) -> Any:
        files.before_writing(path)
        return original(path, length)

    return truncated


def _removing(files: FileBackup, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def removed(path: Any, *, dir_fd: Any = None) -> Any:
        files.before_moving(_within(dir_fd, path))
        return original(path, dir_fd=dir_fd)

    return removed


def _renaming(files: FileBackup, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def renamed(src: Any, dst: Any, *, src_dir_fd: Any = None, dst_dir_fd: Any = None) -> Any:
        files.before_moving(_within(src_dir_fd, src), _within(dst_dir_fd, dst))
        return original(src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    return renamed


def _making(files: FileBackup, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def made(path: Any, *args: Any, dir_fd: Any = None, **kwargs: Any) -> Any:
        files.before_creating(_within(dir_fd, path))
        return original(path, *args, dir_fd=dir_fd, **kwargs)

    return made


def _linking(files: FileBackup, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def linked(src: Any, dst: Any, *args: Any, **kwargs: Any) -> Any:
        files.before_creating(_within(kwargs.get("dir_fd", kwargs.get("dst_dir_fd")), dst))
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


def _on_file_io(files: FileBackup, patches: PatchSet, module: Any) -> None:
    """``tf.io.gfile``: its own files, and what its functions call to rename and remove others."""
    patches.replace(module.FileIO, BEFORE_WRITE, functools.partial(_checking, files))
    below = native_functions(module)
    patches.replace(below, "DeleteFile", functools.partial(_telling, files.before_moving))
    patches.replace(below, "DeleteRecursively", functools.partial(_deleting_all, files))
    patches.replace(below, "RenameFile", functools.partial(_moving, files))
    for name in ("CreateDir", "RecursivelyCreateDir"):
        patches.replace(below, name, functools.partial(_telling, files.before_creating))
    patches.replace(below, "CopyFile", functools.partial(_copying, files))


def _checking(files: FileBackup, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def check(file: Any) -> Any:
        mode = str(file.mode)
        files.before_writing(file.name, is_append="a" in mode, is_truncated="w" in mode)
        return original(file)

    return check


def _telling(tell: Callable[[Any], None], original: Callable[..., Any]) -> Callable[..., Any]:
    def told(path: Any, *rest: Any) -> Any:
        tell(path)
        return original(path, *rest)

    return told


def _deleting_all(files: FileBackup, original: Callable[..., Any]) -> Callable[..., Any]:
    def deleted(path: Any, *rest: Any) -> Any:
        for folder, inner, names in os.walk(os.fsdecode(path)):
            links = [name for name in inner if Path(folder, name).is_symlink()]
            for name in (*links, *names):
                files.before_moving(Path(folder, name))
        return original(path, *rest)

    return deleted


def _moving(files: FileBackup, original: Callable[..., Any]) -> Callable[..., Any]:
    def moved(path: Any, to: Any, *rest: Any) -> Any:
        files.before_moving(path, to)
        return original(path, to, *rest)

    return moved


def _copying(files: FileBackup, original: Callable[..., Any]) -> Callable[..., Any]:
    def copied(path: Any, to: Any, *rest: Any) -> Any:
        files.before_writing(to, is_truncated=bool(rest and rest[0]))  # or it must not be there
        return original(path, to, *rest)

    return copied
