"""What is going on, on standard error: one live line in a terminal, a few lines elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Final, TextIO

from uncork.core.base.journal import Event, WorkProgress
from uncork.report.content.figures import escape_control_characters, format_ratio, truncate

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

    from uncork.core.base.journal import EventKind

_INDENT: Final[Mapping[EventKind, str]] = {
    "phase": "",
    "measured": "  ",
    "step": "  ",
    "note": "  ",
    "error": "  ",
    "done": "",
}
_LEFT: Final = " left"
_REDRAWS_PER_S: Final = 4.0
# Columns that the phase keeps, however much is to be shown behind it.
_MIN_PHASE_WIDTH: Final = 16


class Progress:
    """Shows events: in a live line, as lines with the seconds since the start, or not at all.

    The live line is for a terminal. It starts and ends with this context manager. The process that
    writes to the same terminal clears it first (``engine.worker.output_streams``).

    Args:
        stream: Standard error unless given.
        quiet: Show nothing.
        verbose: A line for every event, and no live line; otherwise only for the milestones.
        title: What the live line says before the first event; without it there is none.
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        quiet: bool = False,
        verbose: bool = False,
        title: str = "",
    ) -> None:
        self._stream = stream or sys.stderr
        self._quiet = quiet
        self._verbose = verbose
        self._begin_s = self._told_s = time.monotonic()
        self._phase = title
        self._work: WorkProgress | None = None
        self._live: Live | None = None

    def __enter__(self) -> Progress:
        """Begin the live line where there can be one."""
        if self._phase and not (self._quiet or self._verbose) and can_redraw(self._stream):
            self._live = self._create_live()
            self._live.start(refresh=True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Clear the live line."""
        live, self._live = self._live, None
        if live is not None:
            with suppress(OSError):  # the terminal was closed
                live.stop()

    def __call__(self, event: Event) -> None:
        """Show one event."""
        if self._live is not None:
            self._remember(event)
        elif not self._quiet and (self._verbose or event.is_milestone):
            self._print(event)

    def _remember(self, event: Event) -> None:
        if event.kind in ("phase", "step"):
            # Of one optimization nothing is going on any more; the next one may take no time.
            self._phase = event.text if event.kind == "phase" else "trying optimizations"
        if event.progress is not None:
            self._work, self._told_s = event.progress, time.monotonic()

    def _print(self, event: Event) -> None:
        speed = "" if event.samples_per_s is None else f": {event.samples_per_s:,.0f} samples/s"
        passed = time.monotonic() - self._begin_s
        with suppress(OSError):  # a terminal that was closed is no reason to lose what was found
            self._stream.write(f"[{passed:4.0f} s] {_INDENT[event.kind]}{event.text}{speed}\n")
            self._stream.flush()

    def _create_live(self) -> Live:
        from rich.console import Console  # noqa: PLC0415 - only a terminal needs it
        from rich.live import Live  # noqa: PLC0415 - only a terminal needs it

        return Live(
            console=Console(file=self._stream),
            get_renderable=self._line,
            refresh_per_second=_REDRAWS_PER_S,
            transient=True,
            redirect_stdout=False,
        )

    def _line(self) -> Text:
        from rich.text import Text  # noqa: PLC0415 - only a terminal needs it

        now_s = time.monotonic()
        facts = describe_progress(self._work, now_s - self._told_s)
        if not (facts and facts[-1].endswith(_LEFT)):
            facts.append(f"{format_clock(now_s - self._begin_s)} passed")
        behind = " | ".join(facts)
        # The last column stays empty: some terminals begin a new line there.
        columns = _columns(self._stream) - 1
        phase = " ".join(escape_control_characters(self._phase).split())
        phase = truncate(phase, max(_MIN_PHASE_WIDTH, columns - len(behind) - 3))
        line = Text(no_wrap=True, overflow="crop").append(f"{phase} | ").append(behind, "cyan")
        line.truncate(columns)
        return line


def describe_progress(work: WorkProgress | None, age_s: float) -> list[str]:
    """How far the work is, as it was known some seconds ago.

    Example:
        >>> work = WorkProgress(step=7, step_count=41, best_ratio=3.21, seconds_left=100.0)
        >>> describe_progress(work, 4.0)
        ['step 7 of 41', 'best 3.2x', '1:36 left']
    """
    if work is None:
        return []
    counted = work.step and work.step_count
    left_s = 0.0 if work.seconds_left is None else work.seconds_left - age_s
    facts = [
        f"{work.unit} {work.step} of {work.step_count}" if counted else "",
        "" if work.best_ratio is None else f"best {format_ratio(work.best_ratio)}",
        f"{format_clock(left_s)}{_LEFT}" if left_s > 0 else "",
    ]
    return [fact for fact in facts if fact]


def format_clock(seconds: float) -> str:
    """Elapsed time that is updated in place, in whole seconds.

    Example:
        >>> format_clock(7.6), format_clock(96.2), format_clock(3725)
        ('0:07', '1:36', '1:02:05')
    """
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def can_redraw(stream: TextIO) -> bool:
    """A line can be drawn again there: on a terminal that knows how, unless NO_COLOR is set."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") in ("dumb", "unknown")
    return stream.isatty() and not plain


def _columns(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
