from __future__ import annotations

import io
import re
from typing import Any

import pytest

from uncork.core.base.journal import Event, WorkProgress
from uncork.report.terminal import progress as module
from uncork.report.terminal.progress import Progress, can_redraw, describe_progress

EVENTS = (
    Event(kind="phase", text="measuring train.py:41", is_milestone=True),
    Event(kind="measured", text="unmodified", samples_per_s=612.4, is_milestone=True),
    Event(kind="step", text="vectorize: skipped, no map"),
    Event(
        kind="phase",
        text="trying parallel_map: the map is serial",
        progress=WorkProgress(step=7, step_count=41, best_ratio=3.21, seconds_left=100.0),
    ),
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(module, "_columns", lambda _: 80)


def shown(stream: io.StringIO, **how: Any) -> str:
    with Progress(stream, title="starting train.py", **how) as progress:
        for event in EVENTS:
            progress(event)
    return stream.getvalue()


def test_a_pipe_gets_a_line_for_each_milestone_and_no_escape_sequence() -> None:
    text = shown(io.StringIO())
    assert text.splitlines() == [
        "[   0 s] measuring train.py:41",
        "[   0 s]   unmodified: 612 samples/s",
    ]
    assert "\x1b" not in text


def test_verbose_shows_every_event_also_on_a_terminal() -> None:
    for stream in (io.StringIO(), Terminal()):
        assert len(shown(stream, verbose=True).splitlines()) == len(EVENTS)


def test_quiet_shows_nothing() -> None:
    assert shown(io.StringIO(), quiet=True) == shown(Terminal(), quiet=True) == ""


def test_a_terminal_has_one_live_line_that_is_gone_at_the_end() -> None:
    text = shown(Terminal())
    assert "starting train.py" in text
    assert "vectorize" not in text
    assert text.endswith("\x1b[1A\x1b[2K")
    assert text.count("\n") == 1  # which the last sequence takes away


def line(progress: Progress) -> str:
    return progress._line().plain


def test_the_live_line_says_phase_step_best_ratio_and_time_left() -> None:
    with Progress(Terminal(), title="starting train.py") as progress:
        assert re.fullmatch(r"starting train.py \| 0:00 passed", line(progress))
        for event in EVENTS:
            progress(event)
        said = line(progress)
    # "1:39" if a second begins between the event and this line.
    facts = r"step 7 of 41 \| best 3\.2x \| 1:(40|39) left"
    assert re.fullmatch(rf"trying parallel_map: the map is serial \| {facts}", said)


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_the_live_line_fits_the_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_columns", lambda _: columns)
    with Progress(Terminal(), title="x") as progress:
        progress(Event(kind="phase", text="a\nlong \x1b[2J" * 40, progress=EVENTS[-1].progress))
        said = line(progress)
    assert len(said) < columns
    assert said.isprintable()


def test_events_without_progress_leave_the_last_one_standing() -> None:
    with Progress(Terminal(), title="x") as progress:
        progress(EVENTS[-1])
        progress(Event(kind="phase", text="proving parallel_map: exact"))
        said = line(progress)
    assert "proving parallel_map" in said
    assert "step 7 of 41" in said


def test_what_is_not_known_is_left_out() -> None:
    assert describe_progress(None, 0.0) == []
    assert describe_progress(WorkProgress(seconds_left=3.0), 5.0) == []
    process = WorkProgress(unit="process", step=2, step_count=4)
    assert describe_progress(process, 0.0) == ["process 2 of 4"]


@pytest.mark.parametrize(
    "variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=lambda given: next(iter(given))
)
def test_no_live_line_where_it_is_not_wanted(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert not can_redraw(Terminal())
    assert "\x1b" not in shown(Terminal())


def test_a_closed_terminal_loses_nothing() -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError("gone")

    Progress(Closed(), verbose=True)(EVENTS[0])
