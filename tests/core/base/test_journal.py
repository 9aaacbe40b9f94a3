from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from records import STEPS
from uncork.core.base.journal import Event, Journal, read_events
from uncork.core.documents.plan import PlanStep


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


def texts(path: Path, offset: int = 0) -> list[str]:
    return [event.text for event, _ in read_events(path, offset)]


def test_events_come_back_in_order(path):
    journal = Journal(path)
    journal.write("phase", "measuring")
    journal.write("measured", "as it is", samples_per_s=612.5)
    journal.write("step", "cache: kept", payload=STEPS[2])
    events = [event for event, _ in read_events(path)]
    assert [e.kind for e in events] == ["phase", "measured", "step"]
    assert events[1].samples_per_s == 612.5
    assert msgspec.json.decode(events[2].payload, type=PlanStep) == STEPS[2]
    assert bytes(events[0].payload) == b"null"


def test_a_reader_goes_on_where_it_was(path):
    journal = Journal(path)
    journal.write("note", "one")
    ((_, offset),) = read_events(path)
    journal.write("note", "two")
    journal.write("note", "three")
    assert texts(path, offset) == ["two", "three"]
    assert offset < path.stat().st_size
    assert texts(path, path.stat().st_size) == []


def test_each_event_is_readable_at_once(path):
    journal = Journal(path)
    for count in range(1, 4):
        journal.write("note", "x")
        assert len(texts(path)) == count


def test_a_torn_last_line_is_left_until_it_is_whole(path):
    journal = Journal(path)
    journal.write("note", "one")
    journal.write("note", "two")
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    for cut in range(first, len(whole)):
        path.write_bytes(whole[:cut])
        found = list(read_events(path))
        assert [e.text for e, _ in found] == ["one"]
        assert found[-1][1] == first
    path.write_bytes(whole)
    assert texts(path, first) == ["two"]


def test_a_killed_writer_costs_its_own_last_line_and_no_other(path):
    Journal(path).write("note", "one")
    with path.open("ab") as file:
        file.write(b'{"kind":"note","te')
    Journal(path).write("note", "after the restart")
    assert texts(path) == ["one", "after the restart"]


def test_words_of_any_language_and_line_breaks_stay_one_event(path):
    Journal(path).write("error", "Zeile 1\nZeile 2 \u2028 é 漢字")
    assert texts(path) == ["Zeile 1\nZeile 2 \u2028 é 漢字"]


def test_a_journal_that_is_not_there_yet_is_empty(path):
    assert list(read_events(path)) == []
    path.touch()
    assert list(read_events(path)) == []


def test_a_journal_to_nowhere_writes_nothing(path):
    Journal(None).write("done", "x")
    journal = Journal(path)
    journal.write("note", "one")
    journal.close()
    journal.close()
    journal.write("note", "two")
    assert texts(path) == ["one"]


def test_events_are_strict():
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"kind":"shout","text":"x"}', type=Event)
