"""Leave files as they were before a script overwrote them, in a run that is thrown away.

Logs, tables, arrays: what :mod:`uncork.capture.sandbox.held_saves` does not suppress is written,
with what trials have made of the weights. Before a file is opened for writing, renamed or removed
it is copied, and :mod:`uncork.capture.sandbox.restore` puts it back. New files stay, and are told.
Somebody else may write the same files meanwhile, a training that is running: what was only added to
is left, and so is what was changed after the script had closed it.

What is seen of it, :mod:`uncork.capture.sandbox.file_hooks` sees.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from uncork.capture.sandbox.restore import BACKUP_LIST_NAME, BackedUpFile
from uncork.pycode.frames.stack import code_owner, iterate_frames, printable_path

# Bytes of all copies; what is larger goes aside, beside where it was, if its name is to be another
# file's. What is written in place then, a script changes data, not results.
_LIMIT: Final = 2**29
# New files that are remembered: a script may make others at every step.
_MOST_NAMED: Final = 256
# As they are before a script's own uses of them are seen to.
_RENAME: Final = os.rename
_LINK: Final = getattr(os, "link", None)
# Hooks that stand between the script and the functions that are seen to here.
_BETWEEN: Final = frozenset(
    str(Path(__file__).with_name(name)) for name in ("overlay_files.py", "redirected_saves.py")
)
_ENCODE: Final = msgspec.json.Encoder().encode


@dataclass
class FileBackup:
    """Copies what is about to be overwritten.

    Args:
        folder: For the copies; nothing beside it is looked at either, as it is Uncork's own.

    Attributes:
        on_write: Called before the script writes a file; may end the script.
        is_in_trials: From here on weights are those of trials.
    """

    folder: Path
    on_write: Callable[[], None] = lambda: None
    is_in_trials: bool = False
    _own: bytes = field(init=False)
    _began_ns: int = field(default_factory=time.time_ns)
    _finished: bool = False
    _absent: set[bytes] = field(default_factory=set)
    _added: set[bytes] = field(default_factory=set)
    _made: list[Path] = field(default_factory=list)
    _seen: dict[bytes, BackedUpFile] = field(default_factory=dict)
    _closed: dict[bytes, int] = field(default_factory=dict)
    _bytes: int = 0
    _lock: Any = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """As other paths are looked at: a directory for temporary files may be a link."""
        self._own = os.path.realpath(os.fsencode(self.folder.parent)) + os.fsencode(os.sep)

    def before_writing(
        self, path: Any, *, is_append: bool = False, is_truncated: bool = False
    ) -> None:
        """A file is about to be opened for writing.

        Args:
            path: As the script names it; a number is a file that is open already.
            is_append: What it holds is left as it is.
            is_truncated: Nothing of what it holds is, and it is made where there is none.
        """
        if isinstance(path, int):
            return
        if _is_uncorks_own():
            # What is traced for us, say, whose code AutoGraph writes down, and removes at the end.
            if not self._lock.locked():  # and not our own copies
                self.before_creating(path)
            return
        with suppress(OSError, ValueError, TypeError), self._lock:
            aside = _moved_aside if is_truncated else None
            self._keep(os.path.realpath(os.fsencode(path)), adding=is_append, aside=aside)
        self.on_write()

    def before_moving(self, path: Any, new_path: Any = None) -> None:
        """A file is about to be renamed or removed; of a link not what it points to.

        Args:
            path: As the script names it.
            new_path: Its new name, where another file may be.
        """
        if isinstance(path, int) or _is_uncorks_own():
            return
        with suppress(OSError, ValueError, TypeError), self._lock:
            places = [_place(each) for each in (path, new_path) if each is not None]
            self._keep(places[0], renaming=new_path is not None, aside=_linked_aside)
            for place in places[1:]:
                self._keep(place, aside=_linked_aside)
            if new_path is not None and os.path.isdir(places[0]):  # noqa: PTH112 - names are bytes
                self._keep_directory(*places)
        self.on_write()

    def before_creating(self, path: Any) -> None:
        """A directory, or another name for something, is about to be made; all above it as well."""
        if isinstance(path, int):
            return
        with suppress(OSError, ValueError, TypeError), self._lock:
            place = _place(path)
            while place not in self._absent and not os.path.lexists(place):
                self._absent.add(place)
                place = os.path.dirname(place)  # noqa: PTH120 - names are bytes

    def note_opened(self, path: Any, file: Any) -> None:
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

    def new_files(self) -> tuple[str, ...]:
        """Files that are there now and were not before the trials."""
        return tuple(
            printable_path(str(file)) for file in dict.fromkeys(self._made) if file.exists()
        )

    def _keep(
        self,
        path: bytes,
        *,
        adding: bool = False,
        renaming: bool = False,
        aside: Callable[[bytes, bytes], None] | None = None,
    ) -> None:
        """Copy it, unless the script has made it itself.

        Args:
            path: That is about to be written, or to go.
            adding: What is in it stays.
            renaming: It gets another name. What has changed since the script began, and was not
                seen to, has been written from C, or by a process of the script's own.
            aside: Keeps it under another name where it is too large to be copied, if it can be.
        """
        if self._closed.pop(path, None) and self._finished:  # it is open again
            self._note(self._seen[path])
        if path in self._seen or path.startswith(self._own):
            return
        file = Path(os.fsdecode(path))
        if not os.path.lexists(path):
            self._absent.add(path)
            if self.is_in_trials and len(self._made) < _MOST_NAMED:
                self._made.append(file)
        if adding:
            self._added.add(path)
        if adding or self._is_its_own(path):
            return
        now = file.lstat()
        if renaming and now.st_ctime_ns >= self._began_ns and path not in self._added:
            return
        if stat.S_ISLNK(now.st_mode):
            self._seen[path] = BackedUpFile(path=path, link_target=os.readlink(path))  # noqa: PTH115
        elif stat.S_ISREG(now.st_mode):
            self._seen[path] = self._kept(path, now, aside)
        else:
            return
        self._note(self._seen[path])

    def _kept(
        self, path: bytes, now: os.stat_result, aside: Callable[[bytes, bytes], None] | None
    ) -> BackedUpFile:
        kept = BackedUpFile(
            path=path,
            size_bytes=now.st_size,
            times_ns=(now.st_atime_ns, now.st_mtime_ns),
            mode=stat.S_IMODE(now.st_mode),
            copy_name=self._copied(Path(os.fsdecode(path)), now.st_size),
        )
        return kept if kept.copy_name is not None or aside is None else self._aside(kept, aside)

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
        self._note(BackedUpFile(path=path, moved_to=to))

    def _copied(self, file: Path, size: int) -> str | None:
        if self._bytes + size > _LIMIT:
            return None
        copy = f"{os.getpid()}-{len(self._seen)}"
        try:
            shutil.copyfile(file, self.folder / copy)
        except OSError:
            with suppress(OSError):  # a part of it would take the room of others
                (self.folder / copy).unlink()
            return None
        self._bytes += size
        return copy

    def _aside(self, kept: BackedUpFile, put: Callable[[bytes, bytes], None]) -> BackedUpFile:
        """Where the same file system takes it, so that not a byte is copied; or nowhere.

        Beside it if it is made anew; else as far up as it can be, as the script may be about to
        remove the directories, too. It is noted before: should this process be killed then,
        somebody must know.
        """
        name = b"%d-%d" % (os.getpid(), len(self._seen))
        hidden = b".%s.uncork-%s" % (os.path.basename(kept.path), name)  # noqa: PTH119 - bytes
        above = [os.fsencode(folder) for folder in Path(os.fsdecode(kept.path)).parents][-2::-1]
        # Where files stay whatever happens, a power cut, say: a temporary directory comes last.
        folders = [(folder, hidden) for folder in (above[::-1] if put is _moved_aside else above)]
        folders.append((os.fsencode(self.folder), name))
        for aside in (os.path.join(*place) for place in folders):  # noqa: PTH118
            noted = msgspec.structs.replace(kept, moved_aside_to=aside)
            with suppress(OSError):
                self._note(noted)
                put(kept.path, aside)
                return noted
        return kept

    def _note(self, kept: BackedUpFile) -> None:
        with (self.folder / BACKUP_LIST_NAME).open("ab") as listed:
            listed.write(_ENCODE(kept) + b"\n")


def _moved_aside(path: bytes, aside: bytes) -> None:
    """A file that is made anew."""
    _RENAME(path, aside)


def _linked_aside(path: bytes, aside: bytes) -> None:
    """A file whose name goes, or becomes another one's: it has two till then."""
    if _LINK is None:
        raise OSError
    _LINK(path, aside)


def _is_uncorks_own() -> bool:
    for frame in iterate_frames(sys._getframe(3)):
        if frame.f_code.co_filename in _BETWEEN:
            continue
        who = code_owner(frame)
        if who != "library":
            return who == "uncork"
    return False


def _place(path: Any) -> bytes:
    """Where a name stands, which may be that of a link."""
    folder, name = os.path.split(os.path.abspath(os.fsencode(path)))  # noqa: PTH100
    return os.path.join(os.path.realpath(folder), name)  # noqa: PTH118
