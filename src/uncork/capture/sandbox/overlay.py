"""A folder in which lies what a script saves while Uncork experiments, by its absolute path.

The script's own reads see what lies there before what lies at the path itself. Nothing of it
reaches the user's files, and it goes at the end of the process's job.
"""

from __future__ import annotations

import glob
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

# Bytes of all saves: with more, the oldest go, but for the first, which may be initial weights.
_LIMIT: Final = 2**31
# What is left free on the disk.
_FREE: Final = 2**28
_REMEMBERED: Final = 4096


class Overlay:
    """Where saves go, and where reads find them.

    Args:
        folder: For the saves, in a folder of Uncork's own; nothing in that one is redirected.

    Attributes:
        dropped: How many saves are gone again, or were never made, for want of room.

    Example:
        >>> from uncork.core.base.owned_folder import owned_folder
        >>> with owned_folder() as own:
        ...     saves = Overlay(Path(own, "saves"))
        ...     _ = Path(saves.to_write("/data/best.keras")).write_text("weights")
        ...     Path(saves.to_read("/data/best.keras")).read_text()
        'weights'
    """

    def __init__(self, folder: Path) -> None:
        self.dropped = 0
        self._own = os.path.realpath(folder.parent) + os.sep
        self._root = os.path.join(os.path.realpath(folder.parent), folder.name)  # noqa: PTH118
        self._directories: set[str] = set()
        self._trees: set[str] = set()
        self._removed: set[str] = set()
        self._real: dict[str, str] = {}
        self._sizes: dict[str, int] = {}
        self._own_doing = threading.local()

    def to_write(self, path: Any, *, is_tree: bool = False) -> Any:
        """Where a save goes; the directory for it is made.

        Args:
            path: As the script names it; what is no name of a file is returned as it is.
            is_tree: A directory is saved there, with files in it.
        """
        name = self._name(path)
        if name is None:
            return path
        with self.own_work():
            self._remember(name, is_tree=is_tree)
            os.makedirs(os.path.dirname(self._root + name), exist_ok=True)  # noqa: PTH103, PTH120
        return self._as(path, self._root + name)

    def to_read(self, path: Any, *suffixes: str) -> Any:
        """Where a path is read: in the folder if it was saved, or removed, by the script.

        Args:
            path: As the script names it; what is no name of a file is returned as it is.
            suffixes: Of files, if the path is the prefix of their names.
        """
        name = self._found(path, suffixes)
        return path if name is None else self._as(path, self._root + name)

    def holds(self, path: Any) -> bool:
        """Whether a path was saved here, or removed."""
        return self._found(path, ()) is not None

    def remove(self, path: Any) -> bool:
        """Forget what was saved there; a file of the user's stays and is not seen any more.

        Args:
            path: As the script names it.

        Returns:
            Whether the script could see something there.
        """
        name = self._name(path)
        if name is None:
            return False
        with self.own_work():
            was_seen = _delete(self._root + name)
            if os.path.lexists(name) and name not in self._removed:
                self._remember(name)
                self._removed.add(name)
                was_seen = True
            return was_seen

    def children(self, path: Any, there: list[Any]) -> list[Any]:
        """What a directory contains.

        Args:
            path: Of the directory, as the script names it.
            there: Names that lie there really, of the type that is returned.
        """
        name = self._name(path) if self._directories else None
        if name is None or not self._is_in_overlay(name):
            return there
        kind = os.fsencode if isinstance(path, bytes) else os.fsdecode
        with self.own_work():
            gone = {os.path.basename(each) for each in self._removed if _above(each) == name}  # noqa: PTH119
            kept = [each for each in there if os.fsdecode(each) not in gone]
            with suppress(OSError):
                saved = map(kind, os.listdir(self._root + name))  # noqa: PTH208
                kept += [each for each in saved if each not in kept]
        return kept

    def matching(self, pattern: Any) -> list[str]:
        """What was saved under names like this one, as the script names it.

        Args:
            pattern: As ``tf.io.gfile.glob`` takes it.
        """
        name = self._name(pattern) if self._directories else None
        if name is None:
            return []
        folder = os.path.dirname(os.fsdecode(pattern))  # noqa: PTH120
        with self.own_work():
            found = glob.glob(glob.escape(self._root) + name)  # noqa: PTH207
        if glob.has_magic(folder):
            return [path[len(self._root) :] for path in found]
        return [os.path.join(folder, os.path.basename(path)) for path in found]  # noqa: PTH118, PTH119

    def saved_folder(self, path: Any) -> str | None:
        """Where the saves in a directory lie; None where it contains none."""
        name = self._name(path) if self._directories and not self.is_own_work() else None
        if name is None or not self._is_in_overlay(name):
            return None
        with self.own_work():
            return self._root + name if os.path.isdir(self._root + name) else None  # noqa: PTH112

    def remove_saved(self, path: Any) -> None:
        """Remove a save, or a directory of saves; what the user has there is seen again."""
        name = self._name(path) if self._directories and not self.is_own_work() else None
        if name is not None:
            with self.own_work():
                _delete(self._root + name)
                self._removed.discard(name)

    def has_room(self) -> bool:
        """Whether the disk takes another save; if not, older ones go first."""
        with self.own_work(), suppress(OSError):
            os.makedirs(self._root, exist_ok=True)  # noqa: PTH103
            while shutil.disk_usage(self._root).free < _FREE:
                if not self._drop_oldest():
                    return False
        return True

    def note_saved(self, path: Any) -> None:
        """A save is complete: if all are too large together, the oldest go."""
        name = self._name(path)
        if name is None:
            return
        with self.own_work():
            self._sizes.pop(name, None)
            self._sizes[name] = _size(self._root + name)
            while sum(self._sizes.values()) > _LIMIT and self._drop_oldest():
                pass

    @contextmanager
    def own_work(self) -> Iterator[None]:
        """What is done with files inside the block is done as it is written."""
        before = self.is_own_work()
        self._own_doing.now = True
        try:
            yield
        finally:
            self._own_doing.now = before

    def is_own_work(self) -> bool:
        """Whether the calling thread is inside :meth:`own_work`."""
        return getattr(self._own_doing, "now", False)

    @contextmanager
    def saving(self) -> Iterator[bool]:
        """Inside the block, all that TensorFlow writes goes here.

        Yields:
            Whether it is not inside another such block.
        """
        before = self.is_saving()
        self._own_doing.saving = True
        try:
            yield not before
        finally:
            self._own_doing.saving = before

    def is_saving(self) -> bool:
        """Whether the calling thread is inside :meth:`saving`."""
        return getattr(self._own_doing, "saving", False)

    def _found(self, path: Any, suffixes: tuple[str, ...]) -> str | None:
        if not self._directories or self.is_own_work():
            return None
        name = self._name(path)
        if name is None or not (name in self._directories or self._is_in_overlay(_above(name))):
            return None
        with self.own_work():
            if name in self._removed:
                os.makedirs(_above(self._root + name), exist_ok=True)  # noqa: PTH103
                return name
            here = any(os.path.lexists(self._root + name + each) for each in ("", *suffixes))
            # A directory of the user's with saves in it is the user's.
            both = here and os.path.isdir(self._root + name) and os.path.isdir(name)  # noqa: PTH112
            return name if here and not (both and name not in self._trees) else None

    def _is_in_overlay(self, directory: str) -> bool:
        if directory in self._directories:
            return True
        return any(directory == tree or directory.startswith(tree + "/") for tree in self._trees)

    def _name(self, path: Any) -> str | None:
        """Absolute, links followed but for the last part; None for what is not redirected."""
        try:
            text = os.fsdecode(path)
        except TypeError:
            return None
        if "://" in text:
            return "/" + text.replace("://", ":/")
        with self.own_work():
            try:
                folder, last = os.path.split(os.path.abspath(text))  # noqa: PTH100
            except OSError:  # the working folder is gone
                return None
            real = self._real.get(folder)
            if real is None:
                if len(self._real) > _REMEMBERED:
                    self._real.clear()
                real = self._real[folder] = os.path.realpath(folder)
        name = os.path.join(real, last)  # noqa: PTH118
        return None if name.startswith(self._own) else name

    def _remember(self, name: str, *, is_tree: bool = False) -> None:
        self._removed.discard(name)
        if is_tree:
            self._trees.add(name)
        while name not in ("/", ""):
            name = _above(name)
            self._directories.add(name)

    def _drop_oldest(self) -> bool:
        """Whether there was one that may go: neither the first nor the newest."""
        if len(self._sizes) < 3:
            return False
        name = list(self._sizes)[1]
        del self._sizes[name]
        self.dropped += 1
        for path in _files(self._root + name):
            _delete(path)
            # Else an older file of the user's would be read in its place, and nobody told.
            self._removed.add(path[len(self._root) :])
        return True

    @staticmethod
    def _as(path: Any, text: str) -> Any:
        return os.fsencode(text) if isinstance(path, bytes) else text


def _above(name: str) -> str:
    return os.path.dirname(name)  # noqa: PTH120 - names are text


def _files(path: str) -> list[str]:
    """A save, or the files of a checkpoint whose names begin so."""
    folder, prefix = os.path.split(path)
    found = [path] if os.path.lexists(path) else []
    with suppress(OSError):
        for name in os.listdir(folder):  # noqa: PTH208
            if name == f"{prefix}.index" or name.startswith(f"{prefix}.data-"):
                found.append(os.path.join(folder, name))  # noqa: PTH118
    return found


def _size(path: str) -> int:
    size = 0
    for file in _files(path):
        inner = (os.path.join(*each) for each in _walk(file))  # noqa: PTH118
        for each in (file, *inner):
            with suppress(OSError):
                size += os.lstat(each).st_size
    return size


def _walk(path: str) -> Iterator[tuple[str, str]]:
    for folder, _, names in os.walk(path):
        yield from ((folder, name) for name in names)


def _delete(path: str) -> bool:
    if not os.path.lexists(path):
        return False
    with suppress(OSError):
        if os.path.isdir(path) and not os.path.islink(path):  # noqa: PTH112, PTH114
            shutil.rmtree(path)
        else:
            os.unlink(path)  # noqa: PTH108
    return True
