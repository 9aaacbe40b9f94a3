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
from uncork.pycode.frames.stack import told

LIST: Final = "list"


class KeptFile(Record, frozen=True, kw_only=True):
    """A file as it was found.

    Attributes:
        path: Absolute, symbolic links followed; of what is a link itself only those above it.
        size: Bytes.
        times: Of its last access and its last change, in nanoseconds.
        mode: Permissions; None where they are not to be set.
        copy: Name of its copy; None where there is none: it is too large, or there is no room.
        aside: Where it went instead, whole; None where it did not.
        closed_ns: When the script closed it last; None where that was not seen.
        link: Of a symbolic link, what it pointed to.
        moved: Of a directory, where the script has moved it.
    """

    path: bytes
    size: int = 0
    times: tuple[int, int] = (0, 0)
    mode: int | None = None
    copy: str | None = None
    aside: bytes | None = None
    closed_ns: int | None = None
    link: bytes | None = None
    moved: bytes | None = None


@dataclass(frozen=True)
class PutBack:
    """What became of files that were overwritten.

    Attributes:
        done: Those that are as they were.
        lost: Those that are not; where there is a copy of one, it is named.
    """

    done: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


def put_back(folder: Path) -> PutBack:
    """Make all files as they were found, as far as they were changed.

    Nothing interrupts it. A file that cannot be written keeps its copy, in a directory that stays.

    Args:
        folder: With the copies; it need not be there.
    """
    # The last first: what was done to a directory that was moved then, was done to it there.
    listed = {(kept.path, kept.moved): kept for kept in _listed(folder)}
    done, lost = [], []
    with _undisturbed():
        for kept in reversed(listed.values()):
            if _is_unchanged(kept):
                _forget_aside(kept)
                continue
            name = told(os.fsdecode(kept.path))
            if _is_somebody_else_s(kept):
                lost.append(name + _where(kept, folder))
                continue
            try:
                _restore(kept, folder)
            except OSError:
                lost.append(name + _where(kept, folder))
            else:
                done.append(name)
    return PutBack(tuple(done), tuple(lost))


def _listed(folder: Path) -> Sequence[KeptFile]:
    found = []
    with suppress(FileNotFoundError):
        for line in (folder / LIST).read_bytes().splitlines():
            with suppress(msgspec.MsgspecError):  # its process was killed while it wrote that
                found.append(msgspec.json.decode(line, type=KeptFile))
    return found


def last_signals() -> tuple[signal.Signals, ...]:
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
    before = signal.pthread_sigmask(signal.SIG_BLOCK, last_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _is_unchanged(kept: KeptFile) -> bool:
    path = os.fsdecode(kept.path)
    try:
        if kept.moved is not None:
            return Path(path).exists() and not Path(os.fsdecode(kept.moved)).exists()
        if kept.link is not None:
            return os.fsencode(os.readlink(path)) == kept.link  # noqa: PTH115 - bytes as they are
        now = Path(path).stat()
    except OSError:
        return False
    return (now.st_size, now.st_mtime_ns) == (kept.size, kept.times[1])


def _restore(kept: KeptFile, folder: Path) -> None:
    """Its contents first: where the file is still there, it stays the same file.

    Raises:
        OSError: It cannot be.
    """
    path = Path(os.fsdecode(kept.path))
    if kept.moved is not None:
        _move_back(Path(os.fsdecode(kept.moved)), path)
        return
    if kept.link is not None:
        _link_again(path, kept.link)
        return
    if kept.aside is not None:
        aside = Path(os.fsdecode(kept.aside))
        found = aside.stat()
        if (found.st_size, found.st_mtime_ns) != (kept.size, kept.times[1]):
            raise OSError  # the script has written to it under another name
        path.parent.mkdir(parents=True, exist_ok=True)
        aside.replace(path)
        return
    if kept.copy is None:
        raise OSError
    if path.is_symlink():
        path.unlink()
    path.parent.mkdir(parents=True, exist_ok=True)
    with (folder / kept.copy).open("rb") as copy, path.open("wb") as file:
        shutil.copyfileobj(copy, file)
    if kept.mode is not None:
        path.chmod(kept.mode)
    os.utime(path, ns=kept.times)


def _forget_aside(kept: KeptFile) -> None:
    """The second name of a file that is where it was."""
    if kept.aside is not None:
        with suppress(OSError):
            Path(os.fsdecode(kept.aside)).unlink()


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


def _is_somebody_else_s(kept: KeptFile) -> bool:
    """It was written again after the script had closed it, as by a training that is running."""
    try:
        changed_ns = Path(os.fsdecode(kept.path)).stat().st_mtime_ns
    except OSError:
        return False
    return kept.closed_ns is not None and changed_ns > kept.closed_ns


def _where(kept: KeptFile, folder: Path) -> str:
    """Where it is found that could not be put back; a copy would go with its directory."""
    if kept.moved is not None:
        return f" (moved to {told(os.fsdecode(kept.moved))})"
    aside = None if kept.aside is None else Path(os.fsdecode(kept.aside))
    if aside is not None and aside.parent != folder and aside.exists():
        return f" (it is {told(str(aside))} now)"
    with suppress(OSError):
        here = folder / kept.copy if kept.copy is not None else aside
        if here is not None:
            home = Path(tempfile.mkdtemp(prefix="uncork-kept-"))
            copy = home / Path(os.fsdecode(kept.path)).name
            shutil.move(here, copy)
            return f" (a copy of it is {copy})"
    return ""
