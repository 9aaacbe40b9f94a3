"""Hooks where Python and ``tf.io.gfile`` read, list, rename and remove files: saves are seen there.

:mod:`uncork.capture.sandbox.overlay` says which path is read in its place.
"""

from __future__ import annotations

import builtins
import functools
import io
import os
import pathlib
import shutil
from collections.abc import Callable, Iterator
from typing import Any, Final

from uncork.capture.base.patches import PatchSet
from uncork.capture.sandbox.overlay import Overlay
from uncork.compat.hook_targets import TF_FILES
from uncork.compat.tf.file_io import native_functions

Function = Callable[..., Any]

# What these functions call the argument.
_NAMES: Final = ("file", "path")
# Functions whose first argument is a path that is there.
_OF_OS: Final = ("open", "stat", "lstat", "access", "chmod", "utime", "truncate", "rmdir")
_OF_TF: Final = ("FileExists", "Stat", "IsDirectory", "BufferedInputStream")


def show_saves(overlay: Overlay, patches: PatchSet) -> None:
    """Let the script's own reads see what it has saved."""
    for owner, names in ((builtins, ("open",)), (io, ("open",)), (os, _OF_OS)):
        for name in names:
            patches.replace(owner, name, functools.partial(_reading, overlay))
    others: dict[str, Function] = {
        "listdir": _listing,
        "scandir": _scanning,
        **dict.fromkeys(("remove", "unlink"), _removing),
        **dict.fromkeys(("rename", "replace"), _renaming),
    }
    for name, hook in others.items():
        patches.replace(os, name, functools.partial(hook, overlay))
    # Before Python 3.11 paths keep functions of their own, taken when pathlib was imported.
    kept = getattr(pathlib, "_normal_accessor", None)
    for name in ("open", "stat", "lstat", "chmod"):
        if hasattr(kept, name):
            patches.replace(kept, name, functools.partial(_reading, overlay))
    for name, hook in others.items():
        if hasattr(kept, name):
            patches.replace(kept, name, functools.partial(hook, overlay))
    patches.replace(shutil, "copyfile", functools.partial(_copying, overlay))
    patches.replace(shutil, "rmtree", functools.partial(_removing_all, overlay))
    patches.when_imported("h5py", functools.partial(_on_h5py, overlay, patches))
    patches.when_imported(TF_FILES, functools.partial(_on_file_io, overlay, patches))


def _reading(overlay: Overlay, original: Function) -> Function:
    """What was saved, if it was; also where it is to be changed or written again."""

    @functools.wraps(original)
    def read(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("dir_fd") is not None:
            return original(*args, **kwargs)
        if args:
            return original(overlay.to_read(args[0]), *args[1:], **kwargs)
        for name in set(_NAMES) & kwargs.keys():
            kwargs[name] = overlay.to_read(kwargs[name])
        return original(**kwargs)

    return read


def _listing(overlay: Overlay, original: Function) -> Function:
    @functools.wraps(original)
    def listed(path: Any = ".") -> Any:
        if isinstance(path, int) or overlay.is_own_work():
            return original(path)
        return overlay.children(path, _there(overlay, original, path))

    return listed


def _there(overlay: Overlay, original: Function, path: Any) -> list[Any]:
    """What lies in a directory really; nothing in one that was saved."""
    return [] if overlay.holds(path) else list(original(path))


class _Entries:
    """What ``os.scandir`` returns."""

    def __init__(self, entries: list[Any]) -> None:
        self._entries = iter(entries)

    def __enter__(self) -> _Entries:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Any]:
        return self._entries

    def __next__(self) -> Any:
        return next(self._entries)

    def close(self) -> None:
        self._entries = iter(())


class _Entry:
    """An entry of a directory under the name that the script gave it."""

    def __init__(self, folder: Any, entry: os.DirEntry[Any]) -> None:
        self.name, self._entry = entry.name, entry
        self.path = os.path.join(folder, entry.name)  # noqa: PTH118

    def __fspath__(self) -> Any:
        return self.path

    def __getattr__(self, name: str) -> Any:
        return getattr(self._entry, name)


def _scanning(overlay: Overlay, original: Function) -> Function:
    @functools.wraps(original)
    def scanned(path: Any = ".") -> Any:
        if isinstance(path, int) or overlay.is_own_work():
            return original(path)
        saved = overlay.saved_folder(path)
        if saved is None:
            return original(path)
        with overlay.own_work():
            found = {entry.name: _Entry(os.fspath(path), entry) for entry in original(saved)}
        there = [] if overlay.holds(path) else list(original(path))
        names = overlay.children(path, [entry.name for entry in there])
        real = {entry.name: entry for entry in there}
        return _Entries([found.get(name) or real[name] for name in names])

    return scanned


def _removing(overlay: Overlay, original: Function) -> Function:
    @functools.wraps(original)
    def removed(path: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("dir_fd") is not None or not overlay.holds(path):
            return original(path, *args, **kwargs)
        # Of what is gone already the folder knows nothing either, and the error is the usual one.
        return None if overlay.remove(path) else original(overlay.to_read(path), *args, **kwargs)

    return removed


def _removing_all(overlay: Overlay, original: Function) -> Function:
    @functools.wraps(original)
    def removed(path: Any, *args: Any, **kwargs: Any) -> Any:
        was_saved = overlay.holds(path)
        overlay.remove_saved(path)
        return None if was_saved else original(path, *args, **kwargs)

    return removed


def _renaming(overlay: Overlay, original: Function) -> Function:
    """What was saved stays among the saves under its new name."""

    @functools.wraps(original)
    def renamed(src: Any, dst: Any, *args: Any, **kwargs: Any) -> Any:
        if not any(value is not None for value in kwargs.values()):
            if overlay.holds(src):
                return _move(overlay, original, src, dst)
            if overlay.holds(dst):
                overlay.remove_saved(dst)
        return original(src, dst, *args, **kwargs)

    return renamed


def _move(overlay: Overlay, original: Function, src: Any, dst: Any) -> Any:
    here, there = overlay.to_read(src), overlay.to_write(dst)
    with overlay.own_work():
        original(here, there)
    overlay.remove(src)


def _copying(overlay: Overlay, original: Function) -> Function:
    """A copy of a save is one, too."""

    @functools.wraps(original)
    def copied(src: Any, dst: Any, *args: Any, **kwargs: Any) -> Any:
        if not overlay.holds(src):
            return original(src, dst, *args, **kwargs)
        original(overlay.to_read(src), overlay.to_write(dst), *args, **kwargs)
        return dst

    return copied


def _on_h5py(overlay: Overlay, patches: PatchSet, module: Any) -> None:
    def opening(original: Function) -> Function:
        @functools.wraps(original)
        def opened(file: Any, name: Any, *args: Any, **kwargs: Any) -> Any:
            named = isinstance(name, str | bytes | os.PathLike)
            return original(file, overlay.to_read(name) if named else name, *args, **kwargs)

        return opened

    patches.replace(module.File, "__init__", opening)


def _on_file_io(overlay: Overlay, patches: PatchSet, module: Any) -> None:
    """``tf.io.gfile``, and all that TensorFlow reads in Python; writes of its savers as well."""
    below = native_functions(module)
    for name in _OF_TF:
        patches.replace(below, name, functools.partial(_reading_natively, overlay))
    others: dict[str, Function] = {
        "GetChildren": _children,
        "GetMatchingFiles": _matching,
        "DeleteFile": _deleting,
        "DeleteRecursively": _deleting,
        "RenameFile": _renaming_natively,
        "CopyFile": _copying_natively,
        "WritableFile": _writing,
        "CreateDir": _creating,
        "RecursivelyCreateDir": _creating,
    }
    for name, hook in others.items():
        patches.replace(below, name, functools.partial(hook, overlay))


def _reading_natively(overlay: Overlay, original: Function) -> Function:
    def read(path: Any, *rest: Any) -> Any:
        return original(overlay.to_read(path), *rest)

    return read


def _children(overlay: Overlay, original: Function) -> Function:
    def listed(path: Any) -> Any:
        return overlay.children(path, _there(overlay, original, path))

    return listed


def _matching(overlay: Overlay, original: Function) -> Function:
    def matched(pattern: Any) -> Any:
        found = list(original(pattern))
        if overlay.is_own_work():
            return found
        kept = [path for path in found if not overlay.holds(path)]
        return sorted({*kept, *overlay.matching(pattern)})

    return matched


def _deleting(overlay: Overlay, original: Function) -> Function:
    def deleted(path: Any) -> Any:
        if not overlay.is_saving() and not overlay.holds(path):
            return original(path)
        return None if overlay.remove(path) else original(overlay.to_read(path))

    return deleted


def _renaming_natively(overlay: Overlay, original: Function) -> Function:
    def renamed(src: Any, dst: Any, *rest: Any) -> Any:
        if overlay.holds(src):
            return _move(overlay, lambda here, there: original(here, there, True), src, dst)
        return original(src, dst, *rest)

    return renamed


def _copying_natively(overlay: Overlay, original: Function) -> Function:
    def copied(src: Any, dst: Any, *rest: Any) -> Any:
        if not overlay.holds(src) and not overlay.is_saving():
            return original(src, dst, *rest)
        return original(overlay.to_read(src), overlay.to_write(dst), *rest)

    return copied


def _writing(overlay: Overlay, original: Function) -> Function:
    def written(path: Any, mode: Any) -> Any:
        if overlay.is_saving():
            return original(overlay.to_write(path), mode)
        return original(overlay.to_read(path), mode)

    return written


def _creating(overlay: Overlay, original: Function) -> Function:
    def created(path: Any) -> Any:
        if not overlay.is_saving():
            return original(path)
        return original(overlay.to_write(path))

    return created
