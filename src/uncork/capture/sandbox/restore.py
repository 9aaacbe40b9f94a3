"""Files as they were before a script overwrote them: put back, from the list that its process left.

Done by the parent, which outlives a child that is killed.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from uncork.core.base.record import Record
from uncork.pycode.frames.stack import printable_path

BACKUP_LIST_NAME: Final = "list"


class BackedUpFile(Record, frozen=True, kw_only=True):
    """A file as it was found.

    Attributes:
        path: Absolute, symbolic links followed; of what is a link itself only those above it.
        size_bytes: Bytes.
        times_ns: Of its last access and its last change, in nanoseconds.
        mode: Permissions; None where they are not to be set.
        copy_name: Name of its copy; None where there is none: it is too large, or there is no room.
        moved_aside_to: Where it went instead, whole; None where it did not.
        closed_ns: When the script closed it last; None where that was not seen.
        link_target: Of a symbolic link, what it pointed to.
        moved_to: Of a directory, where the script has moved it.
    """

    path: bytes
    size_bytes: int = 0
    times_ns: tuple[int, int] = (0, 0)
    mode: int | None = None
    copy_name: str | None = None
    moved_aside_to: bytes | None = None
    closed_ns: int | None = None
    link_target: bytes | None = None
    moved_to: bytes | None = None


@dataclass(frozen=True)
class RestoreResult:
    """Which of the overwritten files were restored, and which were not.

    Attributes:
        restored_files: Those that are as they were.
        lost_files: Those that are not; where there is a copy of one, it is named.
    """

    restored_files: tuple[str, ...] = ()
    lost_files: tuple[str, ...] = ()


def restore_files(folder: Path, ended_ns: int | None = None) -> RestoreResult:
    """Restore all files that the script has changed.

    Nothing interrupts it. A file that cannot be written keeps its copy, in a directory that stays.

    Args:
        folder: With the copies; it need not be there.
        ended_ns: When the script had surely ended, if that is long ago: what was changed later,
            somebody else has changed.
    """
    # The last first: what was done to a directory that was moved then, was done to it there.
    listed = {(kept.path, kept.moved_to): kept for kept in _listed(folder)}
    done, lost = [], []
    with _undisturbed():
        for kept in reversed(listed.values()):
            if _is_unchanged(kept):
                _forget_aside(kept)
                continue
            name = printable_path(os.fsdecode(kept.path))
            if _is_somebody_else_s(kept, ended_ns):
                lost.append(name + _where(kept, folder))
                continue
            try:
                _restore(kept, folder)
            except OSError:
                lost.append(name + _where(kept, folder))
            else:
                done.append(name)
    return RestoreResult(tuple(done), tuple(lost))


def _listed(folder: Path) -> Sequence[BackedUpFile]:
    found = []
    with suppress(FileNotFoundError):
        for line in (folder / BACKUP_LIST_NAME).read_bytes().splitlines():
            with suppress(msgspec.MsgspecError):  # its process was killed while it wrote that
                found.append(msgspec.json.decode(line, type=BackedUpFile))
    return found


def termination_signals() -> tuple[signal.Signals, ...]:
    """Signals that end a process from outside: Ctrl-C, a job's limit, a terminal that is closed.

    The last of them only where somebody listens: under ``nohup`` nobody does.
    """
    closed = getattr(signal, "SIGHUP", None)
    heard = closed is not None and signal.getsignal(closed) is not signal.SIG_IGN
    return (signal.SIGINT, signal.SIGTERM, *((closed,) if closed and heard else ()))


@contextmanager
def _undisturbed() -> Iterator[None]:
    """What would end this process ends it afterwards."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, termination_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _is_unchanged(kept: BackedUpFile) -> bool:
    path = os.fsdecode(kept.path)
    try:
        if kept.moved_to is not None:
            return Path(path).exists() and not Path(os.fsdecode(kept.moved_to)).exists()
        if kept.link_target is not None:
            return os.fsencode(os.readlink(path)) == kept.link_target  # noqa: PTH115 - bytes as they are
        now = Path(path).stat()
    except OSError:
        return False
    return (now.st_size, now.st_mtime_ns) == (kept.size_bytes, kept.times_ns[1])


def _restore(kept: BackedUpFile, folder: Path) -> None:
    """Its contents first: where the file is still there, it stays the same file.

    Raises:
        OSError: It cannot be.
    """
    path = Path(os.fsdecode(kept.path))
    if kept.moved_to is not None:
        _move_back(Path(os.fsdecode(kept.moved_to)), path)
        return
    if kept.link_target is not None:
        _link_again(path, kept.link_target)
        return
    if kept.moved_aside_to is not None:
        aside = Path(os.fsdecode(kept.moved_aside_to))
        found = aside.stat()
        if (found.st_size, found.st_mtime_ns) != (kept.size_bytes, kept.times_ns[1]):
            raise OSError  # the script has written to it under another name
        path.parent.mkdir(parents=True, exist_ok=True)
        aside.replace(path)
        return
    if kept.copy_name is None:
        raise OSError
    if path.is_symlink():
        path.unlink()
    path.parent.mkdir(parents=True, exist_ok=True)
    with (folder / kept.copy_name).open("rb") as copy, path.open("wb") as file:
        shutil.copyfileobj(copy, file)
    if kept.mode is not None:
        path.chmod(kept.mode)
    os.utime(path, ns=kept.times_ns)


def _forget_aside(kept: BackedUpFile) -> None:
    """The second name of a file that is where it was."""
    if kept.moved_aside_to is not None:
        with suppress(OSError):
            Path(os.fsdecode(kept.moved_aside_to)).unlink()


def _move_back(now: Path, before: Path) -> None:
    """A directory, unless the script has made another one in its place."""
    if before.exists():
        raise OSError
    before.parent.mkdir(parents=True, exist_ok=True)
    now.rename(before)


def _link_again(path: Path, target: bytes) -> None:
    """Made beside it first: a directory that has taken its place stays, and so does a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".uncork-", dir=path.parent) as beside:
        link = Path(beside, "link")
        link.symlink_to(os.fsdecode(target))
        link.replace(path)


def _is_somebody_else_s(kept: BackedUpFile, ended_ns: int | None) -> bool:
    """Another process, such as a running training, wrote the file after the script closed it."""
    closed_ns = ended_ns if kept.closed_ns is None else kept.closed_ns
    try:
        changed_ns = Path(os.fsdecode(kept.path)).stat().st_mtime_ns
    except OSError:
        return False
    return closed_ns is not None and changed_ns > closed_ns


def _where(kept: BackedUpFile, folder: Path) -> str:
    """Where a file lies that could not be restored; its copy leaves the temporary directory."""
    if kept.moved_to is not None:
        return f" (moved to {printable_path(os.fsdecode(kept.moved_to))})"
    aside = None if kept.moved_aside_to is None else Path(os.fsdecode(kept.moved_aside_to))
    if aside is not None and aside.parent != folder and aside.exists():
        return f" (now at {printable_path(str(aside))})"
    with suppress(OSError):
        here = folder / kept.copy_name if kept.copy_name is not None else aside
        if here is not None:
            home = Path(tempfile.mkdtemp(prefix="uncork-kept-"))
            copy = home / Path(os.fsdecode(kept.path)).name
            shutil.move(here, copy)
            return f" (a copy is at {copy})"
    return ""
