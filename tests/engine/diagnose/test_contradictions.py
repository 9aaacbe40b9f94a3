"""Which measurement two figures that cannot both hold start, and what it leaves in the notes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from records import MACHINE, observed
from uncork.core.base.journal import Journal
from uncork.core.base.record import replace
from uncork.core.evidence.batches import RecordedBatches
from uncork.engine.diagnose.contradictions import resolve_contradictions
from uncork.rules.judge import judge

WAITING = observed(step_s=0.1, shares={"input": 0.9, "step": 0.1})
WAITING = replace(WAITING, ceilings={**WAITING.ceilings, "supply": 32_000.0})
COMPILED = RecordedBatches(batch_count=9, new_step_s=0.09, known_step_s=0.01, start_s=0.5)


def resolved(kept, found=WAITING, block_s=0.8, **options):
    """With a subject that measures so, or raises; and how long it was asked to look."""
    asked = []

    def measure(variant, seconds):
        asked.append(seconds)
        if isinstance(kept, Exception):
            raise kept
        return kept

    subject = SimpleNamespace(measure_recorded_batches=measure)
    journal = Journal(Path("/dev/null"))
    return resolve_contradictions(subject, None, found, journal, block_s=block_s, **options), asked


def test_figures_that_agree_start_nothing():
    fine = observed(step_s=0.1, shares={"step": 1.0})
    found, asked = resolved(COMPILED, fine)
    assert found is fine
    assert asked == []


def test_different_batches_decide_and_the_finding_follows():
    found, asked = resolved(COMPILED)
    assert asked == [pytest.approx(3.2)]
    assert found.recorded_batches == COMPILED
    (note,) = found.notes
    assert "90 ms the first time and 10 ms later" in note
    assert [each.cause for each in judge(found, MACHINE).findings] == ["compile_time"]
    assert [each.cause for each in judge(WAITING, MACHINE).findings] == []  # undecided: no name


@pytest.mark.parametrize("kept", [None, MemoryError("no room")])
def test_where_nobody_can_keep_batches_the_contradiction_is_told(kept):
    found, _ = resolved(kept)
    assert found.breakdown == WAITING.breakdown
    assert found.notes[0].startswith("two figures contradict each other, and no measurement could")


def test_starts_are_among_the_steps_where_whole_epochs_were_timed():
    short = replace(WAITING, workload=replace(WAITING.workload, steps_per_epoch=5))
    assert resolved(COMPILED, short)[0].recorded_batches.is_start_in_steps
    explicit = replace(short, workload=replace(short.workload, has_explicit_steps=True))
    assert not resolved(COMPILED, explicit)[0].recorded_batches.is_start_in_steps


def test_after_the_deadline_the_contradiction_is_told_and_not_measured():
    found, asked = resolved(COMPILED, deadline_s=0.0)
    assert asked == []
    assert found.notes[0].startswith("two figures contradict each other, and no measurement could")
