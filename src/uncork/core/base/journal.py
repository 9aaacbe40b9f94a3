"""The journal: events as JSON lines, written by the child and followed by the parent.

It is the live progress and the recovery point: each line stands alone, so a killed child loses at
most the line it was writing. Who writes on after it begins a line of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Literal

import msgspec

from uncork.core.base.record import Record

EventKind = Literal["phase", "measured", "step", "note", "error", "done"]


class WorkProgress(Record, frozen=True, kw_only=True):
    """How far the work is when an event happens.

    Attributes:
        unit: What is counted, in the singular.
        step: Number of the current one, from 1; 0 before the first.
        step_count: How many there are; 0 where they are not counted.
        best_ratio: Speed now over the unmodified speed, as measured so far; None before a gain.
        seconds_left: Until the end, as far as it can be told; None where it cannot.
    """

    unit: str = "step"
    step: int = 0
    step_count: int = 0
    best_ratio: float | None = None
    seconds_left: float | None = None


class Event(Record, frozen=True, kw_only=True):
    """One line: what happened, in words, with an optional figure.

    Attributes:
        kind: ``phase`` opens a part of the work, ``step`` closes one optimization.
        text: One sentence for the terminal.
        samples_per_s: Speed just measured, if any.
        payload: A record as JSON, for recovery (the finished
        :class:`~uncork.core.documents.plan.PlanStep`).
        progress: How far the work is; None where it is not known.
        is_milestone: One of the few events that a log of the whole run should contain.
    """

    kind: EventKind
    text: str
    samples_per_s: float | None = None
    payload: msgspec.Raw = msgspec.Raw(b"null")
    progress: WorkProgress | None = None
    is_milestone: bool = False


class Journal:
    """Append events to a file, hand them to a listener in the same process, or neither.

    Args:
        path: Appended to.
        on_event: Called with each event.

    Attributes:
        progress: Says how far the work is; asked for each event.

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
        self.progress: Callable[[], WorkProgress | None] = lambda: None

    def write(
        self,
        kind: EventKind,
        text: str,
        *,
        samples_per_s: float | None = None,
        payload: Record | None = None,
        is_milestone: bool = False,
    ) -> None:
        """Append one event; unbuffered, so that the parent sees it at once."""
        event = Event(
            kind=kind,
            text=text,
            samples_per_s=samples_per_s,
            payload=msgspec.Raw(msgspec.json.encode(payload)),
            progress=self.progress(),
            is_milestone=is_milestone,
        )
        if self._follow is not None:
            self._follow(event)
        if self._file is not None:
            with suppress(OSError):  # progress that finds no room is no reason to stop the work
                self._file.write(msgspec.json.encode(event) + b"\n")

    def count_down(self, end_s: float) -> None:
        """Let events say how many seconds are left until a time of :func:`time.monotonic`."""
        self.progress = lambda: WorkProgress(seconds_left=seconds_until(end_s))

    def close(self) -> None:
        """Close the file; later writes go nowhere."""
        if self._file is not None:
            self._file.close()
            self._file = None


def seconds_until(end_s: float) -> float | None:
    """Seconds until a time of :func:`time.monotonic`; None where it has passed."""
    left_s = end_s - time.monotonic()
    return left_s if left_s > 0 else None


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
