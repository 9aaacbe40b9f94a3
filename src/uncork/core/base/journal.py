"""The journal: events as JSON lines, written by the child and followed by the parent.

It is the live progress and the recovery point: each line stands alone, so a killed child loses at
most the line it was writing. Who writes on after it begins a line of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Literal

import msgspec

from uncork.core.base.record import Record

EventKind = Literal["phase", "measured", "step", "note", "error", "done"]


class Event(Record, frozen=True, kw_only=True):
    """One line: what happened, in words, with an optional figure.

    Attributes:
        kind: ``phase`` opens a part of the work, ``step`` closes one optimization.
        text: One sentence for the terminal.
        samples_per_s: Speed just measured, if any.
        payload: A record as JSON, for recovery (the finished
        :class:`~uncork.core.documents.plan.PlanStep`).
    """

    kind: EventKind
    text: str
    samples_per_s: float | None = None
    payload: msgspec.Raw = msgspec.Raw(b"null")


class Journal:
    """Append events to a file, hand them to a listener in the same process, or neither.

    Args:
        path: Appended to.
        on_event: Called with each event.

    Example:
        >>> Journal(on_event=lambda event: print(event.text)).write("phase", "measuring")
        measuring
    """

    def __init__(
        self, path: Path | None = None, on_event: Callable[[Event], None] | None = None
    ) -> None:
        torn = path is not None and _is_torn(path)
        self._file: IO[bytes] | None = path.open("ab", buffering=0) if path else None
        if self._file is not None and torn:
            self._file.write(b"\n")
        self._follow = on_event

    def write(
        self,
        kind: EventKind,
        text: str,
        *,
        samples_per_s: float | None = None,
        payload: Record | None = None,
    ) -> None:
        """Append one event; unbuffered, so that the parent sees it at once."""
        raw = msgspec.Raw(msgspec.json.encode(payload))
        event = Event(kind=kind, text=text, samples_per_s=samples_per_s, payload=raw)
        if self._follow is not None:
            self._follow(event)
        if self._file is not None:
            with suppress(OSError):  # progress that finds no room is no reason to stop the work
                self._file.write(msgspec.json.encode(event) + b"\n")

    def close(self) -> None:
        """Close the file; later writes go nowhere."""
        if self._file is not None:
            self._file.close()
            self._file = None


def read_events(path: Path, offset: int = 0) -> Iterator[tuple[Event, int]]:
    """Whole events from ``offset`` on, each with the offset after it; torn lines are left out."""
    if not path.exists():
        return
    with path.open("rb") as file:
        file.seek(offset)
        for line in file:
            if not line.endswith(b"\n"):
                return
            offset += len(line)
            event = _event(line)
            if event is not None:
                yield event, offset


def _event(line: bytes) -> Event | None:
    """None for what a killed writer left of one; an event that we do not know is an error."""
    try:
        return msgspec.json.decode(line, type=Event)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _is_torn(path: Path) -> bool:
    return path.exists() and not (b"\n" + path.read_bytes()).endswith(b"\n")
